package opentsdb

import (
	"encoding/hex"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// appendTSUID names a series by its key, in hexadecimal digits. OpenTSDB's
// tsuids are shorter; to clients both are opaque.
func appendTSUID(dst []byte, key series.Key) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range key {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// selectorOfTSUID returns the selector of the one series that a tsuid names.
func selectorOfTSUID(tsuid, database string) (scan.Selector, error) {
	key, err := hex.DecodeString(tsuid)
	if err != nil || len(tsuid) == 0 {
		return scan.Selector{}, invalid("Invalid TSUID: '%s'", tsuid)
	}
	of, metric, tags, err := series.Key(key).Parts(nil)
	if err != nil || string(of) != database {
		return scan.Selector{}, invalid("Unable to resolve TSUID: '%s'", tsuid)
	}
	selector := scan.Selector{Database: database, Metric: string(metric), Exact: true}
	for _, tag := range tags {
		selector.Matchers = append(selector.Matchers,
			scan.Matcher{Name: string(tag.Name), Kind: scan.MatchEqual, Values: []string{string(tag.Value)}})
	}
	return selector, nil
}
