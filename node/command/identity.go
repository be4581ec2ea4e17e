package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// nodeIdentitySettings say which node a process is and where others reach it.
type nodeIdentitySettings struct {
	nodeID, zone, zoneFile string
	rpcAddr, advertiseAddr settings.Address
}

func (s *nodeIdentitySettings) Define(f *pflag.FlagSet) {
	f.StringVar(&s.nodeID, "node-id", "", "`name` of this node, unique in the cluster (default: the host's name)")
	s.rpcAddr = ":6190"
	f.Var(&s.rpcAddr, "rpc-addr", "where other nodes and routers connect; beyond the loopback it needs --rpc-tls-cert, or --insecure")
	f.Var(&s.advertiseAddr, "advertise-addr", "the address that they are told (default: the host's name and the port of --rpc-addr)")
	f.StringVar(&s.zone, "zone", "", "`name` of the place that fails together: a rack, a power strip, a zone")
	f.StringVar(&s.zoneFile, "zone-file", "", "`file` with the zone, instead of --zone; the node waits until it has text")
	settings.Group(f, settings.HeadingCluster, "node-id", "rpc-addr", "advertise-addr", "zone", "zone-file")
}

func (s *nodeIdentitySettings) Validate(v *settings.Validation) {
	if s.nodeID != "" && !settings.ValidName(s.nodeID) {
		v.Refuse("node-id", s.nodeID, "expected up to 63 small letters, digits and inner hyphens")
	}
	if s.rpcAddr == "" {
		v.Refuse("rpc-addr", "", "expected host:port")
	}
	if s.zone != "" && s.zoneFile != "" {
		v.Refuse("zone-file", s.zoneFile, "expected either --zone or --zone-file")
	}
}

const zoneFileRetry = 500 * time.Millisecond

// readZone takes the zone from its file, which somebody may yet have to write.
func (s *nodeIdentitySettings) readZone(ctx context.Context, logger *slog.Logger) error {
	if s.zoneFile == "" {
		return nil
	}
	for told := false; ; told = true {
		text, err := os.ReadFile(s.zoneFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--zone-file: %w", err)
		}
		if s.zone = strings.TrimSpace(string(text)); s.zone != "" {
			break
		}
		if !told {
			logger.Info("waiting for the zone to be written", "file", s.zoneFile)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(zoneFileRetry):
		}
	}
	if !shardmap.ValidName(s.zone) {
		return fmt.Errorf("--zone-file %s: %q is not a valid name of a zone", s.zoneFile, s.zone)
	}
	return nil
}
