package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("product or pack?")
	}
	switch args[0] {
	case "product":
		return runProduct(ctx, args[1:])
	case "pack":
		p, err := readPacking(args[1:])
		if err != nil {
			return err
		}
		digest, err := p.build(ctx)
		if err == nil {
			fmt.Println(p.name, digest)
		}
		return err
	default:
		return fmt.Errorf("no such command: %q", args[0])
	}
}

func runProduct(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("product", flag.ContinueOnError)
	out := set.String("out", "", "folder for executables and archives")
	prefix := set.String("prefix", "lab.local/", "of the images' names")
	tag := set.String("tag", "", "of the images; empty for the version of the sources")
	version := set.String("version", "", "that the programs say; empty for the version of the sources")
	wanted := set.String("programs", "", "names with commas between; empty for all")
	chosen := set.String("architectures", strings.Join(architectures, ","), "what the images are for")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("-out is needed")
	}
	folder, err := filepath.Abs(*out) // programs are compiled in other folders
	if err != nil {
		return err
	}
	s, err := readSource(ctx)
	if err != nil {
		return err
	}
	if *version != "" {
		if s, err = s.as(*version, folder); err != nil {
			return err
		}
	}
	b := build{source: s, folder: folder, prefix: *prefix, tag: *tag, architectures: strings.Split(*chosen, ",")}
	if b.tag == "" {
		b.tag = s.version
	}
	if *wanted != "" {
		b.programs = strings.Split(*wanted, ",")
	}
	return b.all(ctx, func(line string) { fmt.Println(line) })
}
