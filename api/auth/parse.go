package auth

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a file.
const (
	usersMax     = 10_000
	nameBytesMax = 128
	costMax      = 15 // of bcrypt: 1 to 2 s
)

// Parse reads the text of a file of users; the name is for messages. Errors:
// rulefile.ErrFile, with all problems of the file.
func Parse(name string, text []byte) (*Rules, error) {
	top, err := rulefile.Parse(name, text)
	if err != nil {
		return nil, err
	}
	r := &Rules{users: map[string]*user{}, tokens: map[secret.Digest]*user{}, tlsNames: map[string]*user{}, issuers: map[string]*issuerRule{}, costMax: bcrypt.DefaultCost}
	err = top.Fields(map[string]func(rulefile.Value) error{"users": r.readUsers, "oidc": r.readIssuers})
	if err == nil && len(r.users) == 0 && len(r.issuers) == 0 {
		err = top.Errorf("there are no users, so nobody could enter: add a list `users:` or `oidc:`")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Rules) readUsers(v rulefile.Value) error {
	list, err := v.List()
	problems := []error{err}
	if len(list) > usersMax {
		return v.Errorf("there are %d users, at most %d are taken", len(list), usersMax)
	}
	for _, item := range list {
		problems = append(problems, r.readUser(item))
	}
	return errors.Join(problems...)
}

func (r *Rules) readUser(v rulefile.Value) error {
	u := &user{rights: map[string]access.Right{}}
	err := v.Fields(map[string]func(rulefile.Value) error{
		"name":          func(v rulefile.Value) (err error) { u.name, err = readName(v); return err },
		"password-hash": func(v rulefile.Value) (err error) { u.passwordHash, err = readHash(v); return err },
		"tokens":        func(v rulefile.Value) error { return u.readTokens(v, r) },
		"tls-names":     func(v rulefile.Value) error { return u.readTLSNames(v, r) },
		"rights":        u.readRights,
	})
	switch {
	case err != nil:
		return err
	case u.name == "":
		return v.Errorf("has no name: add a line `name: …`")
	case r.users[u.name] != nil:
		return v.Errorf("the user %q is there already", u.name)
	}
	r.users[u.name] = u
	if cost, err := bcrypt.Cost([]byte(u.passwordHash)); err == nil {
		r.costMax = max(r.costMax, cost)
	}
	return nil
}

// readName reads a user's name: one word, as Basic ends a name at a colon and the put
// port's command auth at a space.
func readName(v rulefile.Value) (string, error) {
	name, err := v.Text()
	switch {
	case err != nil:
		return "", err
	case name == "" || len(name) > nameBytesMax:
		return "", v.Errorf("a name has 1 to %d bytes", nameBytesMax)
	case name == wordToken || name == wordBasic:
		return "", v.Errorf("%q cannot be a name: it is a word of the command `auth`", name)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == ':' || c == 0x7f {
			return "", v.Errorf("%q has %q, which names cannot have", name, string(rune(c)))
		}
	}
	return name, nil
}

func readHash(v rulefile.Value) (string, error) {
	hash, err := v.Text()
	if err != nil {
		return "", err
	}
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return "", v.Errorf("this is no hash of bcrypt; `tickmesh auth hash` makes one")
	}
	if cost > costMax {
		return "", v.Errorf("its cost is %d, at most %d is taken; `tickmesh auth hash` makes one", cost, costMax)
	}
	return hash, nil
}

func (u *user) readTokens(v rulefile.Value, r *Rules) error {
	list, err := v.List()
	problems := []error{err}
	for _, item := range list {
		text, err := item.Text()
		if err != nil {
			problems = append(problems, err)
			continue
		}
		d, ok := secret.ParseDigest(text)
		if !ok {
			problems = append(problems, item.Errorf("expected the 64 hexadecimal digits of a token's SHA-256; `tickmesh auth token` makes both"))
			continue
		}
		if r.tokens[d] != nil {
			problems = append(problems, item.Errorf("this token is there already"))
			continue
		}
		r.tokens[d] = u
		u.tokens = append(u.tokens, d)
	}
	return errors.Join(problems...)
}

func (u *user) readTLSNames(v rulefile.Value, r *Rules) error {
	list, err := v.List()
	problems := []error{err}
	for _, item := range list {
		name, err := item.Text()
		switch {
		case err != nil:
			problems = append(problems, err)
		case name == "":
			problems = append(problems, item.Errorf("expected the name of a certificate"))
		case r.tlsNames[name] != nil:
			problems = append(problems, item.Errorf("%q is there already", name))
		default:
			r.tlsNames[name] = u
			u.tlsNames = append(u.tlsNames, name)
		}
	}
	return errors.Join(problems...)
}

func (u *user) readRights(v rulefile.Value) error {
	entries, err := v.Entries()
	problems := []error{err}
	for _, e := range entries {
		right, err := readRight(e.Value)
		problems = append(problems, err)
		if e.Key == access.Everything {
			u.otherwise = right
			continue
		}
		if err := series.ValidateDatabase(e.Key); err != nil || e.Key == "" {
			problems = append(problems, e.Value.Errorf("%q: expected the name of a database, default, or %q for all others", e.Key, access.Everything))
			continue
		}
		u.rights[access.Canonical(e.Key)] = right
	}
	return errors.Join(problems...)
}

func readRight(v rulefile.Value) (access.Right, error) {
	text, err := v.Text()
	if err != nil {
		return 0, err
	}
	if right, ok := access.ParseRight(text); ok {
		return right, nil
	}
	words := strings.Join([]string{access.Read.String(), access.Write.String(), access.Admin.String()}, ", ")
	return 0, v.Errorf("%q: expected %s", text, fmt.Sprintf("one of %s, %s", words, access.Right(0)))
}
