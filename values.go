package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of values that flags take besides pflag's own.

// byteSize is a flag's number of bytes: 65536, 64KiB, 1.5GiB, 200MB.
type byteSize int64

var byteUnits = []struct { //nolint:gochecknoglobals // a constant table
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// byteSizeMax leaves room to add two sizes.
const byteSizeMax = 1 << 62

var errByteSize = errors.New("expected a size such as 65536, 64KiB or 1.5GB")

func (b *byteSize) Set(text string) error {
	number, unit := text, 1.0
	for _, u := range byteUnits {
		if strings.HasSuffix(text, u.suffix) {
			number, unit = strings.TrimSuffix(text, u.suffix), u.bytes
			break
		}
	}
	number = strings.TrimSpace(number)
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil && unit == 1 {
		if whole < 0 || whole > byteSizeMax {
			return errByteSize
		}
		*b = byteSize(whole) // exact, where a float64 is not
		return nil
	}
	if strings.Trim(number, "0123456789.") != "" { // no exponents, hex, Inf, NaN
		return errByteSize
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v*unit > byteSizeMax {
		return errByteSize
	}
	*b = byteSize(v * unit)
	return nil
}

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string {
	v := int64(*b)
	for i := 3; i >= 0; i-- {
		if unit := int64(byteUnits[i].bytes); v >= unit && v%unit == 0 {
			return strconv.FormatInt(v/unit, 10) + byteUnits[i].suffix
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

// spanDaysMax keeps a span within time.Duration.
const spanDaysMax = 100_000

var errSpan = errors.New("expected a length of time with its unit, such as 30s, 36h, 90d, 2w or 1y")

func (s *span) Set(text string) error {
	if n := len(text) - 1; n > 0 {
		if days := daysOf(text[n]); days != 0 {
			v, err := strconv.ParseUint(text[:n], 10, 64)
			if err != nil || v > spanDaysMax/days {
				return errSpan
			}
			*s = span(time.Duration(v*days) * 24 * time.Hour)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errSpan
	}
	*s = span(d)
	return nil
}

// daysOf gives the days of a unit that time.ParseDuration does not know; 0: it
// is no such unit.
func daysOf(unit byte) uint64 {
	switch unit {
	case 'd':
		return 1
	case 'w':
		return 7
	case 'y':
		return 365
	default:
		return 0
	}
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
