package main

import (
	"log/slog"
	"os"
	"time"
)

// closingMax bounds how long a process that has abandoned requests takes to close what they may
// still hold: its data folder waits for the reads that have begun.
const closingMax = time.Second

// exitAfter ends the process when it has not ended by itself, unless the timer is stopped before.
// What was acknowledged is in the log, from which the next start takes it.
func exitAfter(wait time.Duration, logger *slog.Logger) *time.Timer {
	return time.AfterFunc(wait, func() {
		logger.Error("requests that cannot be canceled keep the data folder open; the process ends without closing it", "waited", wait.String())
		os.Exit(1)
	})
}
