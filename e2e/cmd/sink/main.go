// Command sink reads what it is sent, looks at nothing and stores nothing. What it costs is what the network costs a server
// that is written with Go's package net: the least that a database of its kind can need for a point.
//
//	go run ./e2e/cmd/sink -http 127.0.0.1:7000 -stream 127.0.0.1:7001,127.0.0.1:7002
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// readBytes is how much a connection reads at once, as the router's do.
	readBytes   = 64 << 10
	connections = 1024 // at most, of each listener
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sink:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("sink", flag.ContinueOnError)
	httpAddr := set.String("http", "127.0.0.1:7000", "where HTTP requests are answered with 204")
	streamAddrs := set.String("stream", "", "where streams are read to their end, separated by commas")
	if err := set.Parse(args); err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	serve := func(address string, conversation func(net.Conn) error) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		work.Go(func() { accept(ctx, listener, conversation) })
		return nil
	}
	if err := serve(*httpAddr, answerRequests); err != nil {
		return err
	}
	for _, address := range strings.FieldsFunc(*streamAddrs, func(r rune) bool { return r == ',' }) {
		if err := serve(address, discard); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// accept serves connections, a goroutine each, until ctx ends.
func accept(ctx context.Context, listener net.Listener, conversation func(net.Conn) error) {
	places := make(chan struct{}, connections)
	for {
		places <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { <-places }()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			defer conn.Close()
			if err := conversation(conn); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "sink:", err)
			}
		}()
	}
}

// discard reads a stream to its end.
func discard(conn net.Conn) error {
	buffer := make([]byte, readBytes)
	for {
		if _, err := conn.Read(buffer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

var (
	noContent     = []byte("HTTP/1.1 204 No Content\r\n\r\n")
	contentLength = []byte("content-length:")
)

// answerRequests reads requests, one after the other, and answers each with 204.
func answerRequests(conn net.Conn) error {
	reader := bufio.NewReaderSize(conn, readBytes)
	for {
		length, err := readHeader(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := reader.Discard(length); err != nil {
			return err
		}
		if _, err := conn.Write(noContent); err != nil {
			return err
		}
	}
}

// readHeader reads a request up to its body, and returns how many bytes that has. It returns io.EOF before a request.
func readHeader(reader *bufio.Reader) (int, error) {
	length := 0
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, err
			}
		}
	}
}
