// Package opentsdb serves the OpenTSDB 2.4 HTTP query API over a scan.Source.
package opentsdb
