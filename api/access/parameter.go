package access

import (
	"net/url"
	"strings"
)

// eachParameter calls visit with the values of one parameter of the query of a URL, as url.URL.Query has them, without making
// strings of all others.
func eachParameter(query, name string, visit func(value string)) {
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if key != name && !strings.ContainsAny(key, "%+") || strings.Contains(pair, ";") {
			continue
		}
		key, err := url.QueryUnescape(key)
		if err != nil || key != name || pair == "" {
			continue
		}
		if value, err = url.QueryUnescape(value); err == nil {
			visit(value)
		}
	}
}
