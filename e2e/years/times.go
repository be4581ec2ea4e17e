package years

import "time"

const (
	minuteMs = int64(60_000)
	hourMs   = 60 * minuteMs
	dayMs    = 24 * hourMs
	weekDays = 7
)

// beginMs is when all stories begin: midnight of a Monday that begins a year.
var beginMs = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// floorDay returns the start of a time's day.
func floorDay(atMs int64) int64 { return atMs - ((atMs%dayMs)+dayMs)%dayMs }

func stamp(atMs int64) string { return time.UnixMilli(atMs).UTC().Format("2006-01-02T15:04:05.000") }
