package origin

import (
	"errors"
	"net/http"
)

// Headers by which browsers say which page sends a request.
const (
	HeaderFetchSite     = "Sec-Fetch-Site"
	HeaderFetchMode     = "Sec-Fetch-Mode"
	HeaderFetchDest     = "Sec-Fetch-Dest"
	HeaderForwardedHost = "X-Forwarded-Host"
)

// StatusOf returns the status of an error of this package: 421 or 403; 0: it is none of it.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, ErrHost):
		return http.StatusMisdirectedRequest
	case errors.Is(err, ErrPage), errors.Is(err, ErrReadOnly):
		return http.StatusForbidden
	}
	return 0
}

// Handler serves by next what the policy takes, for ports of net/http; the rest is answered
// in plain text.
func (p *Policy) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := func(name string) []byte { return []byte(r.Header.Get(name)) }
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		sender, err := p.Check(&Request{
			Reads: reads, Host: []byte(r.Host), Target: []byte(r.URL.Host), Origin: header("Origin"),
			ForwardedHost: header(HeaderForwardedHost), FetchSite: header(HeaderFetchSite), FetchMode: header(HeaderFetchMode), FetchDest: header(HeaderFetchDest),
		})
		if err == nil && sender == Any && !reads {
			err = ErrReadOnly
		}
		if err != nil {
			http.Error(w, err.Error(), StatusOf(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}
