package process

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/secret"
	objects "github.com/tickmesh/tickmesh/operator/build"
)

// Routers take the file of users that the operator makes.
func TestOperatorsUsers(t *testing.T) {
	made := func() string { return secret.DigestOf(secret.New("")).String() }
	operator, metrics, own := made(), made(), made()
	for _, users := range []string{"", "users: []", "users: [{name: ann, tokens: [" + own + "], rights: {default: write}}]"} {
		text, err := objects.AuthFile([]byte(users), operator, metrics)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := auth.Parse("auth.yaml", text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
