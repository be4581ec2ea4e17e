// Package storagetest holds what the tests of storage and of nodes share.
package storagetest

import (
	"os"
	"strconv"
)

// Seeds returns how many seeds a random test tries: the usual number, or as many times
// that as the environment variable TICKMESH_TEST_FACTOR says.
func Seeds(usual int) int {
	factor, err := strconv.Atoi(os.Getenv("TICKMESH_TEST_FACTOR"))
	if err != nil || factor < 1 {
		return usual
	}
	return usual * factor
}
