// Command site gathers the pages of the repository for the generator of the site, and checks what came of them.
// Pages stay beside what they describe; site.yaml is their index.
//
//	go run ./hack/site stage FOLDER    copies the pages of the index there, under their names
//	go run ./hack/site check FOLDER    looks for dead links in a built site, and for what it loads from elsewhere
//
// hack/scripts/site.sh calls both, with Sphinx between them.
package main

import (
	"errors"
	"fmt"
	"os"
)

var errUsage = errors.New("usage: site stage|check FOLDER")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	switch args[0] {
	case "stage":
		pages, err := openIndex(".")
		if err != nil {
			return err
		}
		return pages.stage(args[1])
	case "check":
		return checkSite(args[1])
	}
	return errUsage
}
