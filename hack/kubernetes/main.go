// Command kubernetes builds and runs the lab: a real Kubernetes on this machine, for
// the end-to-end tests and for trying things by hand.
//
//	go run ./hack/kubernetes assets             compile what envtest needs, print the folder
//	go run ./hack/kubernetes program NAME       compile one program, print its path
//	go run ./hack/kubernetes build              compile and pack everything
//	go run ./hack/kubernetes up [-machines 3] [-cpus 0,1]
//	go run ./hack/kubernetes run COMMAND…       run kubectl, helm or anything in the lab's network
//	go run ./hack/kubernetes load FILE.tar…     import images into all machines
//	go run ./hack/kubernetes off|on|cut|mend MACHINE
//	go run ./hack/kubernetes down               end it and remove all that it has left
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		os.Exit(max(1, ended.ExitCode()))
	case err != nil && !errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("what? assets, program, build, up, run, load, off, on, cut, mend or down")
	}
	folders, err := lab.FindFolders()
	if err != nil {
		return err
	}
	command, args := args[0], args[1:]
	switch command {
	case "assets":
		if err := folders.Build(ctx, lab.AssetPrograms(), report); err != nil {
			return err
		}
		fmt.Println(folders.Bin)
		return nil
	case "program":
		return program(ctx, folders, args)
	case "build":
		return folders.Prepare(ctx, report)
	case "up":
		return up(ctx, folders, args)
	case "down":
		return lab.Down(ctx, folders)
	case "rack", "machine": // the lab's own
		return first(folders, command, args)
	}
	rack, err := lab.Find(folders)
	if err != nil {
		return err
	}
	return ask(ctx, rack, command, args)
}

// program compiles one of the lab's programs, such as helm, unless it is there.
func program(ctx context.Context, folders lab.Folders, args []string) error {
	all := lab.Programs()
	at := slices.IndexFunc(all, func(p lab.Program) bool { return len(args) == 1 && p.Name == args[0] })
	if at < 0 {
		return errors.New("which program?")
	}
	if err := folders.Build(ctx, all[at:at+1], report); err != nil {
		return err
	}
	fmt.Println(filepath.Join(folders.Bin, all[at].Name))
	return nil
}

func up(ctx context.Context, folders lab.Folders, args []string) error {
	set := flag.NewFlagSet("up", flag.ContinueOnError)
	options := lab.Options{Report: report}
	set.IntVar(&options.Machines, "machines", 3, "how many")
	set.StringVar(&options.CPUs, "cpus", "", "processors for all of the lab, as taskset takes them; empty for all")
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := lab.Possible(folders); err != nil {
		return err
	}
	if err := folders.Prepare(ctx, report); err != nil {
		return err
	}
	rack, err := lab.Up(ctx, folders, options)
	if err != nil {
		return err
	}
	fmt.Println("The lab runs. Try: go run ./hack/kubernetes run kubectl get pods -A -o wide")
	fmt.Println("Its files are in", rack.Folders.Run)
	return nil
}

// first is the first process of new namespaces.
func first(folders lab.Folders, command string, args []string) error {
	if len(args) != 1 {
		return errors.New("this command is the lab's own; use up")
	}
	if command == "machine" {
		return lab.RunMachine(folders, args[0])
	}
	machines, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return lab.RunRack(folders, machines)
}

// ask does something with a lab that runs.
func ask(ctx context.Context, rack *lab.Rack, command string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s what?", command)
	}
	actions := map[string]func(context.Context, string) error{
		"off": rack.PowerOff, "on": rack.PowerOn, "cut": rack.Cut, "mend": rack.Mend, "load": rack.LoadImage,
	}
	if command == "run" {
		cmd := rack.Command(ctx, args[0], args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd.Run()
	}
	action, ok := actions[command]
	if !ok {
		return fmt.Errorf("no such command: %s", command)
	}
	for _, arg := range args {
		if err := action(ctx, arg); err != nil {
			return err
		}
	}
	return nil
}

func report(what string, took time.Duration) {
	if took > 0 {
		fmt.Fprintf(os.Stderr, "%-32s %6.1f s\n", what, took.Seconds())
	}
}
