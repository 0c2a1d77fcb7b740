// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package rights

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAudit: rights are read from audit events as roles write them, other programs' requests and a line that was cut off are left
// out, so are requests that an API server did not come to decide on, and what nothing used is told.
func TestAudit(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	text := `{"verb":"list","userAgent":"dovetail","objectRef":{"resource":"pods","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","userAgent":"dovetail","objectRef":{"resource":"deployments","subresource":"scale","apiGroup":"apps","name":"d"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"update","userAgent":"dovetail/leader-election","objectRef":{"resource":"configmaps","name":"a"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"update","userAgent":"e2e.test/v0","objectRef":{"resource":"configmaps","name":"b"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"delete","userAgent":"dovetail","objectRef":{"resource":"secrets","name":"s"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"patch","userAgent":"dovetail","objectRef":{"resource":"nodeclaims","apiGroup":"karpenter.sh","name":"c"},"annotations":{}}
{"verb":"watch","userAgent":"dovetail","objectRef":{"resource":"pods","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"watch","userAgent":"dovetail","objectRef":{"resource":"nodes","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"watch","userAgent":"dovetail","objectRef":{"resource":"nodes","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","userAgent":"dovetail","requestURI":"/version"}
{"verb":"get","userAgent":"dovetail","objectRef":{"resource":"templates","apiGroup":"infra","name":"t"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"update","userAgent":"dovetail","objectRef":{"resource":"config`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := NewAudit()
	for _, file := range []string{log, log + ".none"} {
		if err := a.Add(file); err != nil {
			t.Fatal(err)
		}
	}
	granted := map[Right]bool{{"list", "", "pods", ""}: true, {"watch", "", "pods", ""}: true, {"get", "*", "*/scale", ""}: true, {"get", "infra", "*", ""}: true, {"get", "other", "*", ""}: true, {"update", "", "configmaps", "a"}: true, {"update", "", "configmaps", "b"}: true}
	var unused []string
	for _, r := range Unused(granted, a.Used) {
		unused = append(unused, r.String())
	}
	if want := []string{"get *.other", "update configmaps b", "watch pods"}; !slices.Equal(unused, want) {
		t.Errorf("unused are %q, want %q", unused, want)
	}
	if len(a.Forbidden) != 2 || !a.Forbidden[Right{"delete", "", "secrets", "s"}] || !a.Forbidden[Right{"watch", "", "pods", ""}] {
		t.Errorf("forbidden are %v", a.Forbidden)
	}
}

// TestShadowRights: what the controller may read in shadow mode it may read when it acts.
func TestShadowRights(t *testing.T) {
	shadow, err := Granted("../../../charts/dovetail/shadow/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	acting, err := Granted("../../../charts/dovetail/rights/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(shadow) < 40 {
		t.Errorf("%d rights in shadow mode: not all were read", len(shadow))
	}
	maps.DeleteFunc(shadow, func(r Right, _ bool) bool { return acting[r] })
	for r := range shadow {
		t.Errorf("in shadow mode it may %s, and not when it acts", r)
	}
}
