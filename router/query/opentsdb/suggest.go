package opentsdb

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// suggestionsDefault is what OpenTSDB answers when no number is asked for.
const suggestionsDefault = 25

type suggestBody struct {
	Type looseText `json:"type"`
	Q    looseText `json:"q"`
	Max  looseText `json:"max"`
}

// suggest serves /api/suggest: names that start with q.
func (h *handler) suggest(a *answer, c *call) error {
	p := c.parameters
	b := suggestBody{Type: looseText(p.Get("type")), Q: looseText(p.Get("q")), Max: looseText(p.Get("max"))}
	if c.Method == http.MethodPost {
		body, err := c.content()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return badContent(err)
		}
		if b.Type == "" {
			return invalid("Missing 'type' parameter")
		}
	}
	if b.Type == "" {
		return missing("type")
	}
	limit := suggestionsDefault
	if b.Max != "" {
		n, err := strconv.Atoi(string(b.Max))
		if err != nil {
			return invalid("Unable to parse 'max' as a number")
		}
		if n > 0 {
			limit = n
		}
	}
	limit = h.boundNames(limit)
	database, prefix := c.database, string(b.Q)
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	var names []string
	switch b.Type {
	case "metrics":
		names, err = x.Metrics(c.Context(), database, prefix, limit)
	case "tagk":
		names, err = x.TagNames(c.Context(), database, "", prefix, limit)
	case "tagv":
		names, err = x.TagValues(c.Context(), database, "", "", prefix, limit)
	default:
		return invalid("Invalid 'type' parameter:%s", b.Type)
	}
	if err != nil {
		return err
	}
	x.TellMissing(a.w.Header())
	a.buf = appendStrings(a.buf, names)
	return nil
}

// boundNames applies the limit of names to a number that a request asks for.
func (h *handler) boundNames(n int) int {
	if limit := h.limits.NamesMax; limit > 0 && int64(n) > limit {
		return int(limit)
	}
	return n
}
