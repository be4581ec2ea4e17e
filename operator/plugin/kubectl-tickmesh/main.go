// Command kubectl-tickmesh is found by kubectl as `kubectl tickmesh`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tickmesh/tickmesh/operator/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := plugin.NewCommand(os.Stdout, plugin.Connect).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl tickmesh:", err)
		os.Exit(1)
	}
}
