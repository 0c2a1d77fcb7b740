// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-sh/dovetail/test/e2e/rights"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// asked is what the controllers of all tests have asked their API servers for.
var asked = struct {
	sync.Mutex
	*rights.Audit
}{Audit: rights.NewAudit()}

// down takes a sandbox down, and takes in its audit log and what pods were refused there.
func down(s *sandbox.Sandbox) error {
	unobserve(s)
	err := s.Down()
	asked.Lock()
	defer asked.Unlock()
	return errors.Join(err, asked.Add(filepath.Join(s.Dir, "logs", "audit.log")))
}

// shownElsewhere are the rights that controllers of these tests need not use, by what shows that each is needed: a test, or how
// the API server checks rights.
var shownElsewhere = []struct {
	by     string
	rights []string
}{
	// Requests that people make with the role of viewers, or that a conflict, which comes by chance, leads to.
	{"TestViewers", []string{"create pods/portforward", "get pods/portforward", "create serviceaccounts/token dovetail-viewer"}},
	{"TestPoolAndClass", []string{"get nodepools.karpenter.sh", "get kwoknodeclasses.karpenter.kwok.sh", "get ec2nodeclasses.karpenter.k8s.aws",
		"get nodegroupclasses.dovetail.sh", "patch kwoknodeclasses/status.karpenter.kwok.sh"}},
	{"TestClusterAPIClass", []string{"get clusterapinodeclasses.karpenter.cluster.x-k8s.io"}},
	{"TestOverlayStatus", []string{"get nodeoverlays.karpenter.sh", "patch nodeoverlays/status.karpenter.sh"}},
	{"TestBufferQuotas", []string{"get capacityquotas.autoscaling.x-k8s.io", "get capacitybuffers.autoscaling.x-k8s.io"}},
	{"TestProvisioningRequests", []string{"get provisioningrequests.autoscaling.x-k8s.io"}},
	{"TestHeadrooms", []string{"get headrooms.dovetail.sh", "get podtemplates", "create capacitybuffers.autoscaling.x-k8s.io"}},
	{"TestEvictRefused", []string{"get pods"}},
	{"TestNodeGroups", []string{"update nodegroupclasses.dovetail.sh", "delete nodegroupclasses.dovetail.sh", "delete nodepools.karpenter.sh"}},
	{"TestProvisioners", []string{"create kwoknodeclasses.karpenter.kwok.sh"}},
	{"TestGroupStatus", []string{"get configmaps cluster-autoscaler-status", "update configmaps cluster-autoscaler-status"}},
	{"TestNodeGroups", []string{"watch configmaps cluster-autoscaler-priority-expander"}},
	{"TestDefaultConstraintsFollow", []string{"watch services", "watch replicationcontrollers", "watch statefulsets.apps"}},
	// An owner reference with blockOwnerDeletion takes this right where OwnerReferencesPermissionEnforcement is on.
	{"OwnerReferencesPermissionEnforcement", []string{"update nodeclaims/finalizers.karpenter.sh", "update nodepools/finalizers.karpenter.sh",
		"update provisioners/finalizers.karpenter.sh", "update awsnodetemplates/finalizers.karpenter.k8s.aws"}},
}

// wrongRights says what is wrong with the roles of the chart, once all tests have run: a right that no controller used, or one
// that a controller lacked. It returns nothing where only some tests ran.
func wrongRights() (wrong []string) {
	if testing.Short() || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	granted, err := rights.Granted("../../charts/dovetail/rights/*.yaml", "../../charts/dovetail/optional/*.yaml")
	if err != nil {
		return []string{err.Error()}
	}
	asked.Lock()
	defer asked.Unlock()
	allowed, used := map[string]bool{}, map[string]bool{} // used: with all numbers as 0: ConfigMaps are chosen by a sum of what is in them
	for r := range granted {
		allowed[r.String()] = true
	}
	for _, e := range shownElsewhere {
		if strings.HasPrefix(e.by, "Test") && !testExists(e.by) {
			wrong = append(wrong, "shownElsewhere names "+e.by+", and there is no such test")
		}
		for _, r := range e.rights {
			used[r] = true
			if !allowed[r] {
				wrong = append(wrong, "shownElsewhere has "+r+", which no role grants")
			}
		}
	}
	for r := range asked.Used {
		used[number.ReplaceAllString(r.String(), "0")] = true
	}
	unused := map[string]bool{}
	for _, r := range rights.Unused(granted, asked.Used) {
		if !used[number.ReplaceAllString(r.String(), "0")] {
			unused[r.String()] = true
		}
	}
	for r := range unused {
		// Where an API server does not stream lists, what is watched is listed first.
		if what, ok := strings.CutPrefix(r, "list "); ok && allowed["watch "+what] && !unused["watch "+what] {
			continue
		}
		wrong = append(wrong, "the chart's roles allow to "+r+", and no test's controller did: remove the right, or add a test")
	}
	for r := range asked.Forbidden {
		// What is granted may be forbidden while an API server starts, before it has read the roles, and before a manifest is installed on demand.
		if !granted[r] && !granted[rights.Right{Verb: r.Verb, Group: r.Group, Resource: r.Resource}] {
			wrong = append(wrong, "a controller asked to "+r.String()+", which the chart's roles don't allow")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// number matches the number that a name of several alike ends with.
var number = regexp.MustCompile(`[0-9]+$`)

// testExists reports whether some test of these or of the product's packages has a name.
func testExists(name string) bool {
	found := false
	for _, root := range []string{".", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(text), "func "+name+"(") {
				found = true
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			panic(err) // the repository's own files
		}
	}
	return found
}
