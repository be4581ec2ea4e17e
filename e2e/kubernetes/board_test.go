package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// powerLoss takes the power of the machine of etcd's leader for a while.
func (s *stage) powerLoss() {
	var machine string
	s.lossPhase("the machine of etcd's leader loses its power", func(ctx context.Context) (err error) {
		if machine, err = s.etcdLeader(ctx); err != nil {
			return err
		}
		return errors.Join(s.rack.PowerOff(ctx, machine), s.rack.WaitNodes(ctx, 2), s.condition(ctx, "Degraded", "True"))
	})
	s.phase("power on: all copies whole again", func(ctx context.Context) error {
		return errors.Join(s.rack.PowerOn(ctx, machine), s.rack.WaitNodes(ctx, 3), s.settled(ctx, 3))
	})
}

// spareOf returns the name of a new machine in the same zone.
func spareOf(machine string) (string, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(machine, "node"))
	return fmt.Sprintf("node%d", number+6), err
}

// boardLoss loses a board for good: one with a node and etcd's leader. A new one takes
// its place. Then the old one is found again, and switched on.
func (s *stage) boardLoss() {
	var old, spare, node string
	s.lossPhase("a board is lost for good: Degraded", func(ctx context.Context) (err error) {
		if old, err = s.etcdLeader(ctx); err != nil {
			return err
		}
		if node, err = s.nodeOn(ctx, old); err != nil {
			return err
		}
		if spare, err = spareOf(old); err != nil {
			return err
		}
		return errors.Join(s.rack.PowerOff(ctx, old), s.rack.WaitNodes(ctx, 2), s.condition(ctx, "Degraded", "True"))
	})
	s.phase("recipe replace-board: a new one takes its place", func(ctx context.Context) error {
		if err := errors.Join(s.rack.PowerOn(ctx, spare), s.rack.WaitNodes(ctx, 3)); err != nil {
			return err
		}
		if err := s.recipeSettled(ctx, 3, "replace-board", anyMachine, old); err != nil {
			return err
		}
		return s.isOn(ctx, node, spare)
	})
	s.phase("the old board is switched on again", func(ctx context.Context) error {
		if err := errors.Join(s.rack.PowerOn(ctx, old), s.rack.WaitNodes(ctx, 4)); err != nil {
			return err
		}
		// What is on its disk belongs to pods that are gone, and to a volume that nobody
		// claims: kubelet and the provisioner remove both.
		err := s.rack.WaitOutput(ctx, "", "get", "persistentvolumes",
			fmt.Sprintf(`--output=jsonpath={.items[?(@.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]==%q)].metadata.name}`, old))
		return errors.Join(err, s.settled(ctx, 3), s.isOn(ctx, node, spare))
	})
}

// cutOff gives a machine up whose cable is out, while everything on it goes on, and
// plugs the cable in when its node has long been rebuilt elsewhere: there are two then
// under one name, and the older one must be refused by all.
func (s *stage) cutOff() {
	const node = "demo-node-1"
	var machine string
	s.lossPhase("a machine is cut off and given up", func(ctx context.Context) (err error) {
		if machine, err = s.machineOf(ctx, node); err != nil {
			return err
		}
		if err := s.rack.Cut(ctx, machine); err != nil {
			return err
		}
		if err := s.condition(ctx, "Degraded", "True"); err != nil {
			return err
		}
		if _, err := s.rack.Kubectl(ctx, "delete", "node/"+machine); err != nil {
			return err
		}
		if err := lab.Wait(ctx, func() (bool, error) {
			on, err := s.machineOf(ctx, node)
			return err == nil && on != "" && on != machine, err
		}); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
	s.phase("its cable is back: the old node is refused", func(ctx context.Context) error {
		if err := s.rack.Mend(ctx, machine); err != nil {
			return err
		}
		// Either it says so, or kubelet has ended it before anybody refused it, and has
		// removed its log. What counts follows: all that is acknowledged is read back.
		if err := lab.Wait(ctx, func() (bool, error) {
			refused, there, err := s.refused(machine, node)
			if refused || !there {
				fmt.Printf("  the old %s was refused: %v; kubelet has ended it already: %v\n", node, refused, !there)
			}
			return err == nil && (refused || !there), err
		}); err != nil {
			return fmt.Errorf("the old %s goes on, and does not say that it is refused: %w", node, err)
		}
		if err := s.settled(ctx, 3); err != nil {
			return err
		}
		return s.rack.PowerOff(ctx, machine)
	})
}

// refused reports whether a node that runs on a machine has said in its log that others have
// refused it, and whether it is there: kubelet removes logs with their pods.
func (s *stage) refused(machine, node string) (refused, there bool, err error) {
	logs, err := filepath.Glob(filepath.Join(s.rack.Folders.Run, machine, "log", "pods", namespace+"_"+node+"_*", "*", "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return refused, true, err
		}
		there = true
		refused = refused || strings.Contains(string(text), wire.ErrRetired.Error())
	}
	return refused, there, err
}

// isOn reports whether a pod is on a machine, and no other.
func (s *stage) isOn(ctx context.Context, pod, machine string) error {
	on, err := s.machineOf(ctx, pod)
	if err == nil && on != machine {
		err = fmt.Errorf("%s is on %s, not on %s", pod, on, machine)
	}
	return err
}

// volumeLoss deletes the volume of a node, with its pod, which uses it.
func (s *stage) volumeLoss() {
	s.phase("a volume is deleted: the node is rebuilt", func(ctx context.Context) error {
		const claim = "pvc/data-demo-node-1"
		identity := func() (string, error) { return s.kubectl(ctx, "get", claim, "--output=jsonpath={.metadata.uid}") }
		before, err := identity()
		if err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", claim, "--wait=false"); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", "pod/demo-node-1", "--wait=false"); err != nil {
			return err
		}
		err = lab.Wait(ctx, func() (bool, error) {
			now, err := identity()
			return err == nil && now != before, err
		})
		return errors.Join(err, s.podReady(ctx, "demo-node-1"), s.settled(ctx, 3))
	})
}

// scaleOut adds two machines and two nodes.
func (s *stage) scaleOut() {
	s.phase("a fifth machine joins", func(ctx context.Context) error {
		return s.machines(ctx, 5)
	})
	s.phase("recipe scale-out: from 3 to 5", func(ctx context.Context) error {
		return s.recipeSettled(ctx, 5, "scale-out")
	})
}

// drain empties a node, and lets it take part again.
func (s *stage) drain() {
	s.phase("recipe drain: a node is empty", func(ctx context.Context) error {
		return errors.Join(s.recipeSettled(ctx, 5, "drain"), s.shardsOn(ctx, "demo-node-1", false))
	})
	s.phase("recipe undrain: it has shards", func(ctx context.Context) error {
		return errors.Join(s.recipeSettled(ctx, 5, "undrain"), s.shardsOn(ctx, "demo-node-1", true))
	})
}

// shardsOn waits until a node has shards, or none.
func (s *stage) shardsOn(ctx context.Context, node string, some bool) error {
	return lab.Wait(ctx, func() (bool, error) {
		shards, err := s.kubectl(ctx, "get", "tmc/demo", fmt.Sprintf(`--output=jsonpath={.status.nodeStatuses[?(@.name==%q)].shards}`, node))
		if err == nil && (shards == "" || (shards != "0") != some) {
			err = fmt.Errorf("%s has %q shards", node, shards)
		}
		return err == nil, err
	})
}

// scaleIn takes the two nodes away.
func (s *stage) scaleIn() {
	s.phase("recipe scale-in: from 5 to 3", func(ctx context.Context) error {
		return s.recipeSettled(ctx, 3, "scale-in")
	})
}

// operatorLoss changes the mind about the size, and loses the operator in the middle.
func (s *stage) operatorLoss() {
	s.phase("3, 5, 4, 3, the operator ended in the middle of each", func(ctx context.Context) error {
		for _, nodes := range []int{5, 4, 3} {
			if err := s.scale(ctx, nodes); err != nil {
				return err
			}
			if err := s.endOperator(ctx); err != nil {
				return err
			}
		}
		return s.settled(ctx, 3)
	})
}

// endOperator ends all operators at some moment after one of them has begun to act.
func (s *stage) endOperator(ctx context.Context) error {
	if err := lab.Wait(ctx, func() (bool, error) {
		holder, err := s.kubectl(ctx, "get", "lease/tickmesh-operator", "--output=jsonpath={.spec.holderIdentity}")
		if err != nil {
			return false, err
		}
		pod, _, _ := strings.Cut(holder, "_")
		if pod == "" {
			return false, errors.New("no operator acts")
		}
		_, err = s.kubectl(ctx, "get", "pod/"+pod)
		return err == nil, err
	}); err != nil {
		return err
	}
	moment := time.Duration(s.random.Int64N(int64(operatorLife)))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(moment):
	}
	fmt.Printf("the operators are ended after %.1f s\n", moment.Seconds())
	_, err := s.kubectl(ctx, "delete", "pod", "--selector=app.kubernetes.io/name=tickmesh-operator", "--force", "--grace-period=0")
	return err
}

// operatorLife bounds how long an operator that is to be ended acts: about as long as it
// needs for what it is asked for.
const operatorLife = 8 * time.Second

func (s *stage) scale(ctx context.Context, nodes int) error {
	_, err := s.kubectl(ctx, "scale", "tmc/demo", fmt.Sprintf("--replicas=%d", nodes))
	return err
}
