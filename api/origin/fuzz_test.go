package origin

import (
	"net"
	"strings"
	"testing"
)

// FuzzCheck: whatever headers there are, a page of another origin is not taken for the server's
// own, and no name that somebody can register is taken for the server's.
func FuzzCheck(f *testing.F) {
	p, err := New(Options{Hosts: []string{"db.example", "*.lan.example"}, Origins: []string{"https://grafana.example"}, Hostname: "box.home"})
	if err != nil {
		f.Fatal(err)
	}
	for _, host := range []string{"", "127.0.0.1:6182", "[::1]:6182", "localhost", "db.example.", "a.lan.example:80", "evil.example", "evil.example:80:1", "127.0.0.1.evil.example", "x.svc", ".svc", "[evil.example", "1.2.3.4.5", "box.home"} {
		f.Add(host, "", "https://evil.example", "cross-site")
		f.Add(host, host, "https://"+host, "")
		f.Add(host, "", "", "same-origin")
	}
	f.Fuzz(func(t *testing.T, host, target, origin, site string) {
		for _, reads := range []bool{false, true} {
			sender, err := p.Check(&Request{Reads: reads, Host: []byte(host), Target: []byte(target), Origin: []byte(origin), FetchSite: []byte(site)})
			if err != nil {
				continue
			}
			for _, name := range []string{host, target} {
				if !own(name) {
					t.Fatalf("%q is taken for a name of the server", name)
				}
			}
			switch {
			case sender == Any:
				t.Fatalf("%q is let in by *", origin)
			case sender == Named && !strings.EqualFold(origin, "https://grafana.example"):
				t.Fatalf("%q is taken for an origin that is named", origin)
			case sender == Own && origin != "" && site != "same-origin" && site != "none" && !strings.EqualFold(origin[strings.Index(origin, "://")+3:], host):
				t.Fatalf("a page of %q (%q) is taken for one of %q", origin, site, host)
			}
		}
	})
}

// own reports whether a Host cannot be of somebody else, as the documents say it: addresses, names
// without a dot, those that the options have, those of Kubernetes' services and of localhost.
func own(hostport string) bool {
	if hostport == "" || strings.HasPrefix(hostport, "[") {
		return true
	}
	host := hostport
	if at := strings.LastIndex(host, ":"); at >= 0 {
		host = host[:at]
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	if net.ParseIP(host) != nil || len(labels) == 1 || last != "" && strings.Trim(last, "0123456789") == "" {
		return true
	}
	if host == "db.example" || host == "box.home" {
		return true
	}
	for _, suffix := range []string{".lan.example", ".svc", ".svc.cluster.local", ".localhost"} {
		if strings.HasSuffix(host, suffix) && host != suffix {
			return true
		}
	}
	return false
}
