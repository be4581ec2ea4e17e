package command

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/settings"
)

// TestClientsOfLongNamesAreNotOne: users are told apart by common names, which end at 64 bytes.
func TestClientsOfLongNamesAreNotOne(t *testing.T) {
	s := &certsSettings{cluster: settings.ClusterNameDefault}
	longest := strings.Repeat("a", clientNameBytesMax)
	if i, _, err := s.identityOf("client/" + longest); err != nil || i.CommonName != longest {
		t.Error(i, err)
	}
	if _, _, err := s.identityOf("client/" + longest + "b"); err == nil {
		t.Error("a name that would be cut short is taken")
	}
}
