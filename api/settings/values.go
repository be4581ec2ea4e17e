package settings

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

// Bytes is a flag's number of bytes: 65536, 64KiB, 1.5GiB, 200MB.
type Bytes int64

// BytesMax leaves room to add two sizes.
const BytesMax = quantity.BytesMax

// Set implements pflag.Value.
func (b *Bytes) Set(text string) error {
	v, err := quantity.Bytes(text)
	if err == nil {
		*b = Bytes(v)
	}
	return err
}

// Type implements pflag.Value.
func (b *Bytes) Type() string { return "size" }

// String implements pflag.Value.
func (b *Bytes) String() string {
	v := int64(*b)
	for _, u := range slices.Backward(quantity.Units()[:4]) {
		if unit := int64(u.Bytes); v >= unit && v%unit == 0 {
			return strconv.FormatInt(v/unit, 10) + u.Suffix
		}
	}
	return strconv.FormatInt(v, 10)
}

// Count is a flag's whole number, 0 or more.
type Count int64

var errCount = errors.New("expected a whole number")

// Set implements pflag.Value.
func (c *Count) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return errCount
	}
	*c = Count(v)
	return nil
}

// Type implements pflag.Value.
func (c *Count) Type() string { return "number" }

// String implements pflag.Value.
func (c *Count) String() string { return strconv.FormatInt(int64(*c), 10) }

// Duration is a flag's length of time. It knows days, weeks and years of 365 days
// besides Go's own units: 0, 90d, 2w, 1y, 36h, 1m30s.
type Duration time.Duration

// Set implements pflag.Value.
func (s *Duration) Set(text string) error {
	d, err := quantity.Span(text)
	if err == nil {
		*s = Duration(d)
	}
	return err
}

// Type implements pflag.Value.
func (s *Duration) Type() string { return "time" }

// String implements pflag.Value.
func (s *Duration) String() string {
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

// Address is a flag's host:port; empty means that nothing listens.
type Address string

// Set implements pflag.Value.
func (a *Address) Set(text string) error {
	if text != "" {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return errors.New("expected host:port, :port for all interfaces, or nothing to switch it off")
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("expected a port from 1 to 65535, or 0 for any free one, not %q", port)
		}
	}
	*a = Address(text)
	return nil
}

// Type implements pflag.Value.
func (a *Address) Type() string { return "host:port" }

// String implements pflag.Value.
func (a *Address) String() string { return string(*a) }

// Choice is a flag that takes one of some words.
type Choice struct {
	Value string
	Words []string
}

// Set implements pflag.Value.
func (o *Choice) Set(text string) error {
	if !slices.Contains(o.Words, text) {
		return fmt.Errorf("expected one of %s", strings.Join(o.Words, ", "))
	}
	o.Value = text
	return nil
}

// Type implements pflag.Value.
func (o *Choice) Type() string { return strings.Join(o.Words, "|") }

// String implements pflag.Value.
func (o *Choice) String() string { return o.Value }
