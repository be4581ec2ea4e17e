// Command kubernetes builds and runs the lab: a real Kubernetes on this machine, for
// the end-to-end tests and for trying things by hand.
//
//	go run ./hack/kubernetes assets   compile what envtest needs, print the folder
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	folders, err := lab.FindFolders()
	if err != nil {
		return err
	}
	if len(args) != 1 || args[0] != "assets" {
		return fmt.Errorf("no such command: %q", args)
	}
	if err := folders.Build(ctx, lab.AssetPrograms(), report); err != nil {
		return err
	}
	fmt.Println(folders.Bin)
	return nil
}

func report(p lab.Program, took time.Duration) {
	if took > 0 {
		fmt.Fprintf(os.Stderr, "%-24s %6.1f s\n", p.Name, took.Seconds())
	}
}
