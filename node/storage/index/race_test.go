//go:build race

package index

import "flag"

// The race detector makes what one goroutine does ten times as dear and finds nothing there, so
// exhaustive tests take samples under it. `make test` also runs them whole, without the detector.
const exhaustive = false

func init() {
	if err := flag.Set("rapid.checks", "30"); err != nil { // what stands on the command line still wins
		panic(err)
	}
}
