package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/quantity"
)

// The kinds of values that flags take besides pflag's own.

// byteSize is a flag's number of bytes: 65536, 64KiB, 1.5GiB, 200MB.
type byteSize int64

// byteSizeMax leaves room to add two sizes.
const byteSizeMax = quantity.BytesMax

func (b *byteSize) Set(text string) error {
	v, err := quantity.Bytes(text)
	if err == nil {
		*b = byteSize(v)
	}
	return err
}

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string {
	v := int64(*b)
	for _, u := range slices.Backward(quantity.Units()[:4]) {
		if unit := int64(u.Bytes); v >= unit && v%unit == 0 {
			return strconv.FormatInt(v/unit, 10) + u.Suffix
		}
	}
	return strconv.FormatInt(v, 10)
}

// count is a flag's whole number, 0 or more.
type count int64

var errCount = errors.New("expected a whole number")

func (c *count) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return errCount
	}
	*c = count(v)
	return nil
}

func (c *count) Type() string   { return "number" }
func (c *count) String() string { return strconv.FormatInt(int64(*c), 10) }

// span is a flag's length of time. It knows days, weeks and years of 365 days
// besides Go's own units: 0, 90d, 2w, 1y, 36h, 1m30s.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := quantity.Span(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

func (s *span) Type() string { return "time" }

func (s *span) String() string {
	d := time.Duration(*s)
	if d == 0 {
		return "0"
	}
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	text := d.String() // 5m0s, 36h0m0s
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// address is a flag's host:port; empty means that nothing listens.
type address string

func (a *address) Set(text string) error {
	if text != "" {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return errors.New("expected host:port, :port for all interfaces, or nothing to switch it off")
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("expected a port from 1 to 65535, or 0 for any free one, not %q", port)
		}
	}
	*a = address(text)
	return nil
}

func (a *address) Type() string   { return "host:port" }
func (a *address) String() string { return string(*a) }

// oneOf is a flag that takes one of some words.
type oneOf struct {
	value string
	words []string
}

func (o *oneOf) Set(text string) error {
	if !slices.Contains(o.words, text) {
		return fmt.Errorf("expected one of %s", strings.Join(o.words, ", "))
	}
	o.value = text
	return nil
}

func (o *oneOf) Type() string   { return strings.Join(o.words, "|") }
func (o *oneOf) String() string { return o.value }
