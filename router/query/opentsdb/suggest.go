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
	b, err := suggestBodyOf(c)
	if err != nil {
		return err
	}
	limit, err := b.limit()
	if err != nil {
		return err
	}
	limit = h.boundNames(limit)
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	var names []string
	switch prefix := string(b.Q); b.Type {
	case "metrics":
		names, err = x.Metrics(c.Context(), c.database, prefix, limit)
	case "tagk":
		names, err = x.TagNames(c.Context(), c.database, "", prefix, limit)
	case "tagv":
		names, err = x.TagValues(c.Context(), c.database, "", "", prefix, limit)
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

// suggestBodyOf reads what is asked for from the parameters, which a body overrides.
func suggestBodyOf(c *call) (b suggestBody, err error) {
	p := c.parameters
	b = suggestBody{Type: looseText(p.Get("type")), Q: looseText(p.Get("q")), Max: looseText(p.Get("max"))}
	if c.Method == http.MethodPost {
		body, err := c.content()
		if err != nil {
			return b, err
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return b, badContent(err)
		}
		if b.Type == "" {
			return b, invalid("Missing 'type' parameter")
		}
	}
	if b.Type == "" {
		return b, missing("type")
	}
	return b, nil
}

// limit returns how many names are asked for.
func (b *suggestBody) limit() (int, error) {
	if b.Max == "" {
		return suggestionsDefault, nil
	}
	n, err := strconv.Atoi(string(b.Max))
	if err != nil {
		return 0, invalid("Unable to parse 'max' as a number")
	}
	if n <= 0 {
		return suggestionsDefault, nil
	}
	return n, nil
}

// boundNames applies the limit of names to a number that a request asks for.
func (h *handler) boundNames(n int) int {
	if limit := h.limits.NamesMax; limit > 0 && int64(n) > limit {
		return int(limit)
	}
	return n
}
