package process

import (
	"log/slog"
	"os"
	"time"
)

// ClosingMax bounds how long a process takes to close one data folder once its requests were
// given up, which may still hold it: a folder waits for the reads that have begun.
const ClosingMax = time.Second

// ExitAfter ends the process when it has not ended by itself, unless the timer is stopped before.
// What was acknowledged is in the log, from which the next start takes it.
func ExitAfter(wait time.Duration, logger *slog.Logger) *time.Timer {
	return time.AfterFunc(wait, func() {
		logger.Error("the data folder was not closed in time, as when a request that cannot be canceled holds it; the process ends without closing it", "waited", wait.String())
		os.Exit(1)
	})
}
