package kubernetes

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// outside lets clients in at the machines. The lab has nobody who gives the Service an
// address, as k3s does; the ports of machines that come with it lead to the cluster.
func (s *stage) outside() {
	s.phase("recipe load-balancer: clients from outside", func(ctx context.Context) error {
		if err := s.recipe(ctx, "load-balancer"); err != nil {
			return err
		}
		var port string
		if err := lab.Wait(ctx, func() (bool, error) {
			text, err := s.kubectl(ctx, "get", "service/demo", fmt.Sprintf("--output=jsonpath={.spec.type} {.spec.ports[?(@.port==%d)].nodePort}", portHTTP))
			kind, number, _ := strings.Cut(text, " ")
			if err == nil && (kind != "LoadBalancer" || number == "") {
				err = fmt.Errorf("the Service is %q", text)
			}
			port = number
			return err == nil, err
		}); err != nil {
			return err
		}
		machines, err := s.rack.Machines(ctx)
		if err != nil {
			return err
		}
		for _, m := range machines {
			if !m.On {
				continue
			}
			if err := get(ctx, s.load.client, "http://"+net.JoinHostPort(m.Address, port)+"/api/version", "version"); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return s.settled(ctx, 3)
	})
}
