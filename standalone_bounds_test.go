package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func settingsOf(t *testing.T, arguments ...string) *standaloneSettings {
	t.Helper()
	s, flags := newFlags()
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBounds(t *testing.T) {
	if err := settingsOf(t).Validate(); err != nil {
		t.Fatal("the defaults:", err)
	}
	for _, good := range []string{
		"--shards=1", "--shards=4096", "--retention=1h", "--retention=0", "--tags-max=1024", "--key-bytes-max=65535", "--http-addr=",
		"--put-addr=127.0.0.1:0 --line-addr=127.0.0.1:0", "--udp-addr=:6182", "--shutdown-delay=0", "--query-timeout=0", "--query-memory=0",
		"--body-bytes-max=1B --body-decoded-bytes-max=1B --in-flight-bytes-max=17MiB", "--checkpoint-bytes=64KiB",
	} {
		if err := settingsOf(t, strings.Fields(good)...).Validate(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"--shards=0":                    `--shards: invalid value "0": expected 1 to 4096`,
		"--shards=4097":                 `--shards: invalid value "4097": expected 1 to 4096`,
		"--retention=59m":               `--retention: invalid value "59m": expected 0, for ever, or at least 1h`,
		"--data-dir=":                   `--data-dir: invalid value "": expected the name of a folder`,
		"--wal-sync-interval=0":         `--wal-sync-interval: invalid value "0": expected more than 0`,
		"--flush-interval=0s":           `--flush-interval: invalid value "0": expected more than 0`,
		"--shutdown-timeout=0":          `--shutdown-timeout: invalid value "0": expected more than 0`,
		"--checkpoint-bytes=65535":      `--checkpoint-bytes: invalid value "65535": expected 64KiB to 4194304TiB`,
		"--wal-file-bytes=2GiB":         `--wal-file-bytes: invalid value "2GiB": expected 64KiB to 1GiB`,
		"--page-file-bytes=0":           `--page-file-bytes: invalid value "0": expected 64KiB to 1GiB`,
		"--line-bytes-max=0":            `--line-bytes-max: invalid value "0": expected 1 to 1GiB`,
		"--key-bytes-max=64KiB":         `--key-bytes-max: invalid value "64KiB": expected 1 to 65535`,
		"--tags-max=0":                  `--tags-max: invalid value "0": expected 1 to 1024`,
		"--connections-max=0":           `--connections-max: invalid value "0": expected 1 to 1048576`,
		"--body-bytes-max=0":            `--body-bytes-max: invalid value "0": expected 1 to 1GiB`,
		"--body-decoded-bytes-max=2GiB": `--body-decoded-bytes-max: invalid value "2GiB": expected 1 to 1GiB`,
		"--put-addr=:6182":              `--put-addr: invalid value ":6182": --http-addr listens there`,
		"--grpc-addr=:6180":             `--grpc-addr: invalid value ":6180": --line-addr listens there`,
		"--metrics-addr=:6182":          `--metrics-addr: invalid value ":6182": --http-addr listens there`,
		"--http-addr= --put-addr= --line-addr= --grpc-addr= --metrics-addr=:0": "every listener is switched off: set --http-addr or another address",
		"--http-addr= --put-addr= --line-addr= --grpc-addr=":                   "every listener is switched off: set --http-addr or another address",
		"--in-flight-bytes-max=1MiB":                                           `--in-flight-bytes-max: invalid value "1MiB": expected 100729856 or more`,
		"--body-bytes-max=1GiB --retention=1s --shards=0":                      `--shards: invalid value "0": expected 1 to 4096`,
	} {
		err := settingsOf(t, strings.Fields(bad)...).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
	err := settingsOf(t, "--body-bytes-max=1GiB", "--in-flight-bytes-max=256MiB", "--retention=1s", "--shards=0").Validate()
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("%d problems told of three: %q", len(lines), lines)
	}
}

// TestFlagsAreDocumented holds that help has every flag, below a heading, with
// what it is.
func TestFlagsAreDocumented(t *testing.T) {
	_, flags := newFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations) != 1 {
			t.Errorf("--%s has no heading", f.Name)
		}
		if len(f.Usage) < 10 {
			t.Errorf("--%s says only %q", f.Name, f.Usage)
		}
	})
}
