package lab

import (
	"fmt"
	"os"
	"testing"
)

// asScene makes the test program play the first process of a tree instead of testing:
// that one collects all ended processes, also those of other tests.
const asScene = "TICKMESH_LAB_SCENE"

func TestMain(m *testing.M) {
	scene, ok := os.LookupEnv(asScene)
	if !ok {
		os.Exit(m.Run())
	}
	if err := scenes[scene](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
