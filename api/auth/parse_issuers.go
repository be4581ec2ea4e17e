package auth

import (
	"errors"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/oidc"
	"github.com/tickmesh/tickmesh/api/rulefile"
)

// Bounds of a file's entries of issuers.
const (
	issuersMax = 16
	grantsMax  = 1000
)

func (r *Rules) readIssuers(v rulefile.Value) error {
	list, err := v.List()
	if len(list) > issuersMax {
		return v.Errorf("there are %d issuers, at most %d are taken", len(list), issuersMax)
	}
	problems := []error{err}
	for _, item := range list {
		problems = append(problems, r.readIssuer(item))
	}
	return errors.Join(problems...)
}

func (r *Rules) readIssuer(v rulefile.Value) error {
	i := &issuerRule{userClaim: "sub"}
	err := v.Fields(map[string]func(rulefile.Value) error{
		"name": func(v rulefile.Value) (err error) {
			if i.name, err = readName(v); err == nil && strings.Contains(i.name, "/") {
				return v.Errorf("the name of an issuer cannot have /")
			}
			return err
		},
		"issuer": func(v rulefile.Value) (err error) {
			if i.url, err = v.Text(); err != nil {
				return err
			}
			if err := oidc.ValidateURL(i.url); err != nil {
				return v.Errorf("%q: %v", i.url, err)
			}
			return nil
		},
		"audiences":  func(v rulefile.Value) (err error) { i.audiences, err = v.Texts(); return err },
		"user-claim": func(v rulefile.Value) (err error) { i.userClaim, err = readClaim(v); return err },
		"rights":     i.readGrants,
	})
	if err != nil {
		return err
	}
	for _, a := range i.audiences {
		if a == "" {
			return v.Errorf("an audience is empty")
		}
	}
	switch {
	case i.name == "" || i.url == "" || len(i.audiences) == 0 || len(i.grants) == 0:
		return v.Errorf("an issuer has the lines `name`, `issuer`, `audiences` and `rights`")
	case r.issuers[i.url] != nil:
		return v.Errorf("the issuer %q is there already", i.url)
	}
	for _, other := range r.issuers {
		if other.name == i.name {
			return v.Errorf("the name %q is there already", i.name)
		}
	}
	r.issuers[i.url] = i
	return nil
}

func (i *issuerRule) readGrants(v rulefile.Value) error {
	list, err := v.List()
	if len(list) > grantsMax {
		return v.Errorf("there are %d rules, at most %d are taken", len(list), grantsMax)
	}
	problems := []error{err}
	for _, item := range list {
		g := grant{rights: &user{rights: map[string]access.Right{}}}
		err := item.Fields(map[string]func(rulefile.Value) error{
			"claim":     func(v rulefile.Value) (err error) { g.claim, err = readClaim(v); return err },
			"value":     func(v rulefile.Value) (err error) { g.value, err = v.Text(); return err },
			"databases": g.rights.readRights,
		})
		if err == nil && (g.claim == "" || g.value == "") {
			err = item.Errorf("a rule has the lines `claim`, `value` and `databases`")
		}
		problems = append(problems, err)
		i.grants = append(i.grants, g)
	}
	return errors.Join(problems...)
}

func readClaim(v rulefile.Value) (string, error) {
	claim, err := v.Text()
	if err == nil && claim == "" {
		return "", v.Errorf("expected the name of a claim")
	}
	return claim, err
}
