package opentsdb

import (
	"maps"
	"slices"
	"strconv"

	"github.com/tickmesh/tickmesh/api/jsontext"
)

// aggregators serves /api/aggregators.
func (h *handler) aggregators(a *answer, _ *call) error {
	a.buf = appendStrings(a.buf, aggregatorNames)
	return nil
}

// showConfig serves /api/config.
func (h *handler) showConfig(a *answer, _ *call) error {
	a.buf = appendTexts(a.buf, h.config)
	return nil
}

// showFilters serves /api/config/filters.
func (h *handler) showFilters(a *answer, _ *call) error {
	a.buf = append(a.buf, '{')
	for _, kind := range filterKinds {
		a.buf = append(appendField(a.buf, kind.name), '{')
		a.buf = jsontext.AppendHTML(appendField(a.buf, "examples"), kind.examples)
		a.buf = jsontext.AppendHTML(appendField(a.buf, "description"), kind.description)
		a.buf = append(a.buf, '}')
	}
	a.buf = append(a.buf, '}')
	return nil
}

// showVersion serves /api/version.
func (h *handler) showVersion(a *answer, _ *call) error {
	v := &h.version
	a.buf = appendTexts(a.buf, map[string]string{
		"version": v.Version, "short_revision": v.ShortRevision, "full_revision": v.FullRevision, "repo": v.Repo,
		"timestamp": "", "repo_status": "", "user": "", "host": "", "branch": "",
	})
	return nil
}

// showStats serves /api/stats. Like OpenTSDB it writes values as strings, and
// times in seconds.
func (h *handler) showStats(a *answer, c *call) error {
	a.buf = append(a.buf, '[')
	if h.stats != nil {
		for i, s := range h.stats(c.Context()) {
			if i > 0 {
				a.buf = append(a.buf, ',')
			}
			a.buf = append(a.buf, '{')
			a.buf = jsontext.AppendHTML(appendField(a.buf, "metric"), s.Metric)
			a.buf = strconv.AppendInt(appendField(a.buf, "timestamp"), floorTo(s.TimeMs, secondMs)/secondMs, 10)
			a.buf = appendValueText(appendField(a.buf, "value"), s.Value)
			a.buf = appendTexts(appendField(a.buf, "tags"), s.Tags)
			a.buf = append(a.buf, '}')
			if err := a.flushIfLong(); err != nil {
				return err
			}
		}
	}
	a.buf = append(a.buf, ']')
	return nil
}

// dropCaches serves /api/dropcaches. There is no cache of names to drop.
func (h *handler) dropCaches(a *answer, _ *call) error {
	a.buf = append(a.buf, `{"message":"Caches dropped","status":"200"}`...)
	return nil
}

// appendTexts appends an object of strings, by name.
func appendTexts(dst []byte, texts map[string]string) []byte {
	dst = append(dst, '{')
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		dst = jsontext.AppendHTML(appendField(dst, name), texts[name])
	}
	return append(dst, '}')
}

// appendValueText appends a value as a JSON string, as /api/query/last and
// /api/stats have it.
func appendValueText(dst []byte, v float64) []byte {
	text := appendFloat(nil, v, true)
	if text[0] == '"' {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	return append(append(dst, text...), '"')
}
