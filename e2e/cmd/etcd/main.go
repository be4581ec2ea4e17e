// Command etcd runs a placement store for local clusters and tests: an etcd of one
// member, the same that is built into the product, as a process that can be killed.
//
//	go run ./e2e/cmd/etcd -data-dir ./etcd -addr 127.0.0.1:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	options := etcdserver.Options{Log: slog.Default()}
	set.StringVar(&options.DataDir, "data-dir", "", "folder for its data")
	set.StringVar(&options.ClientAddress, "addr", "127.0.0.1:2379", "where clients connect")
	set.BoolVar(&options.NoSync, "no-sync", false, "do not wait for the disk; a power cut may lose everything")
	if err := set.Parse(args); err != nil {
		return err
	}
	if options.DataDir == "" {
		return fmt.Errorf("-data-dir is missing")
	}
	server, err := etcdserver.Start(ctx, options)
	if ctx.Err() != nil && err != nil {
		return nil // it was asked to end before it was ready
	}
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Println("ready at", server.Endpoint())
	select {
	case err := <-server.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
}
