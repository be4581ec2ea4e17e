package index

import (
	"fmt"
	"time"
)

// Month is a calendar month in UTC, counted from January 1970. Earlier times
// belong to month 0 and times after December 2199 to MonthMax, so that the number
// of months is bounded whatever a sample's time is.
type Month uint16

// MonthMax is the last month, December 2199 and all that follows.
const MonthMax Month = (2200-1970)*12 - 1

// MonthOf returns the month of a time in milliseconds since the Unix epoch.
func MonthOf(timeMs int64) Month {
	year, month, _ := time.UnixMilli(timeMs).UTC().Date()
	switch {
	case year < 1970:
		return 0
	case year >= 2200:
		return MonthMax
	}
	return Month((year-1970)*12 + int(month) - 1)
}

// String returns the month as 2006-01.
func (m Month) String() string { return fmt.Sprintf("%04d-%02d", 1970+int(m)/12, 1+int(m)%12) }
