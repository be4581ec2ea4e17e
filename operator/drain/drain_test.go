package drain

import (
	"errors"
	"testing"
)

func TestConnections(t *testing.T) {
	listeners := []string{"http", "put"}
	for _, c := range []struct {
		text string
		want int
		err  error
	}{
		{"listener.http.downstream_cx_active: 2\nlistener.put.downstream_cx_active: 3\nlistener.status.downstream_cx_active: 9\nhttp.http.downstream_cx_active: 7\n", 5, nil},
		{"listener.put.downstream_cx_active: 0\nlistener.http.downstream_cx_active: 0", 0, nil},
		{"listener.http.downstream_cx_active: 2\n", 0, ErrAdmin},
		{"", 0, ErrAdmin},
		{"listener.http.downstream_cx_active: x\nlistener.put.downstream_cx_active: 3\n", 0, ErrAdmin},
		{"listener.http.downstream_cx_active: -1\nlistener.put.downstream_cx_active: 3\n", 0, ErrAdmin},
	} {
		if got, err := Connections(c.text, listeners); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v", c.text, got, err)
		}
	}
}

func FuzzConnections(f *testing.F) {
	f.Add("listener.http.downstream_cx_active: 2\n")
	f.Add("listener.http.downstream_cx_active: 2\nlistener.http.downstream_cx_active: 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := Connections(text, []string{"http"}); n < 0 || err != nil && (n != 0 || !errors.Is(err, ErrAdmin)) {
			t.Errorf("%d, %v", n, err)
		}
	})
}
