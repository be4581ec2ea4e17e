package auth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/oidc"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/secret"
)

// issuerRule is the entry of an OpenID Connect issuer in a file.
type issuerRule struct {
	name      string // in the names of its users
	url       string
	audiences []string
	userClaim string
	grants    []grant
}

// grant grants rights to the tokens that have a value in a claim.
type grant struct {
	claim, value string
	rights       *user
}

// subjectBytesMax bounds the name that an issuer gives a user.
const subjectBytesMax = 255

// userOf returns the user of verified claims, with the highest of the rights of all grants that fit;
// nil: the rule is not of their issuer, or none of its grants fits.
func (r *Rules) userOf(c *oidc.Claims) *user {
	rule := r.issuers[c.Issuer()]
	if rule == nil || !c.For(rule.audiences) {
		return nil
	}
	subject := c.Texts(rule.userClaim)
	if len(subject) != 1 || !isSubject(subject[0]) {
		return nil
	}
	return userWith("oidc:"+rule.name+"/"+subject[0], rule.grantsOf(c))
}

// grantsOf returns the grants that fit claims.
func (i *issuerRule) grantsOf(c *oidc.Claims) (fit []grant) {
	if i == nil {
		return nil
	}
	for _, g := range i.grants {
		if slices.Contains(c.Texts(g.claim), g.value) {
			fit = append(fit, g)
		}
	}
	return fit
}

// userWith returns a user with the highest of the rights of grants; nil: there are none.
func userWith(name string, fit []grant) *user {
	if len(fit) == 0 {
		return nil
	}
	u := &user{name: name, rights: map[string]access.Right{}}
	for _, one := range fit {
		u.otherwise = max(u.otherwise, one.rights.otherwise)
		for database := range one.rights.rights {
			for _, other := range fit {
				u.rights[database] = max(u.rights[database], other.rights.on(database))
			}
		}
	}
	return u
}

// isSubject reports whether a text can be a part of a name in logs.
func isSubject(text string) bool {
	if text == "" || len(text) > subjectBytesMax {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// issuers has the keys of the issuers that the rules of now name. Those that stay keep their keys
// when the file changes.
type issuers struct {
	mu    sync.Mutex
	rules *Rules // that byURL belongs to
	byURL map[string]*oidc.Issuer
}

// issuersNow returns the issuers of the rules of now, by URL. The map does not change.
func (a *Authenticator) issuersNow() map[string]*oidc.Issuer {
	s := &a.issuers
	s.mu.Lock()
	defer s.mu.Unlock()
	rules := a.options.Current()
	if s.rules == rules {
		return s.byURL
	}
	all := make(map[string]*oidc.Issuer, len(rules.issuers))
	for url := range rules.issuers {
		if all[url] = s.byURL[url]; all[url] == nil {
			all[url] = oidc.NewIssuer(oidc.Options{URL: url, Logger: a.options.Logger, Clock: a.options.Clock})
		}
	}
	for url, i := range s.byURL {
		if all[url] == nil {
			i.Retire()
		}
	}
	s.rules, s.byURL = rules, all
	return all
}

// Run fetches the keys of the file's OpenID Connect issuers until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stops := map[*oidc.Issuer]context.CancelFunc{}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	ticker := time.NewTicker(rulefile.ReadInterval)
	defer ticker.Stop()
	for {
		now := slices.Collect(maps.Values(a.issuersNow()))
		for _, i := range now {
			if stops[i] == nil {
				each, stop := context.WithCancel(ctx)
				stops[i] = stop
				running.Go(func() { i.Run(each) })
			}
		}
		for i, stop := range stops {
			if !slices.Contains(now, i) {
				stop()
				delete(stops, i)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// byJWT verifies a token that is none of the file's. What was verified is remembered by the
// token's digest; whether it has expired is looked at each time.
func (a *Authenticator) byJWT(ctx context.Context, rules *Rules, token []byte, sum secret.Digest) (*principal, error) {
	if len(rules.issuers) == 0 {
		return nil, access.ErrUnauthenticated
	}
	k := a.key('j', sum[:], nil)
	if p := a.remembered(rules, k); p != nil && p.proof.claims.Valid() {
		return p, nil
	}
	t, err := oidc.Parse(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", access.ErrUnauthenticated, err)
	}
	rule, issuer := rules.issuers[t.Issuer()], a.issuersNow()[t.Issuer()]
	if rule == nil || issuer == nil {
		return nil, fmt.Errorf("%w: %w: its issuer is none of the file's", access.ErrUnauthenticated, oidc.ErrToken)
	}
	claims, err := issuer.Verify(ctx, t, rule.audiences)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", access.ErrUnauthenticated, err)
	}
	u := rules.userOf(claims)
	if u == nil {
		return nil, fmt.Errorf("%w: the token is valid, but no rule of the issuer %s fits its claims, or %s is no name", access.ErrUnauthenticated, rule.name, rule.userClaim)
	}
	a.checked.Add(1)
	p := a.principal(u.name, proof{kind: byClaims, claims: claims})
	a.remember(rules, k, p)
	return p, nil
}

// issuerMetrics describe the issuers.
type issuerMetrics struct{ keys, fetches *prometheus.Desc }

func newIssuerMetrics() issuerMetrics {
	return issuerMetrics{
		keys:    prometheus.NewDesc("tickmesh_oidc_keys", "Keys in use of an OpenID Connect issuer; 0: its tokens are refused.", []string{"issuer"}, nil),
		fetches: prometheus.NewDesc("tickmesh_oidc_fetches_total", "Fetches of an OpenID Connect issuer's keys by what became of them.", []string{"issuer", "outcome"}, nil),
	}
}

func (a *Authenticator) collectIssuers(to chan<- prometheus.Metric) {
	m := a.issuerMetrics
	for url, i := range a.issuersNow() {
		good, bad := i.Fetches()
		to <- prometheus.MustNewConstMetric(m.keys, prometheus.GaugeValue, float64(i.Keys()), url)
		to <- prometheus.MustNewConstMetric(m.fetches, prometheus.CounterValue, float64(good), url, "ok")
		to <- prometheus.MustNewConstMetric(m.fetches, prometheus.CounterValue, float64(bad), url, "failed")
	}
}
