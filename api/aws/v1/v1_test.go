// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"encoding/json"
	"testing"
)

func spec(t *testing.T, text string) *EC2NodeClassSpec {
	t.Helper()
	var s EC2NodeClassSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// The hash sees what machines can't follow, and nothing else.
func TestHash(t *testing.T) {
	const base = `{"role":"node","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"id":"subnet-1"}],
		"securityGroupSelectorTerms":[{"id":"sg-1"}],"kubelet":{"maxPods":20,"clusterDNS":["10.0.0.10"]},
		"blockDeviceMappings":[{"deviceName":"a","ebs":{"volumeSize":"20Gi"}},{"deviceName":"b","ebs":{"volumeSize":"30Gi"}}]`
	hash := func(more, ca string) string {
		h, err := spec(t, base+more+"}").Hash(ca)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash("", "ca")
	for _, same := range []string{
		`,"subnetSelectorTerms":[{"id":"subnet-2"}]`, `,"securityGroupSelectorTerms":[{"name":"a"}]`, `,"amiFamily":"AL2023"`,
		`,"amiSelectorTerms":[{"alias":"al2023@v20240807"}]`, `,"capacityReservationSelectorTerms":[{"id":"cr-1"}]`,
		`,"kubelet":{"clusterDNS": ["10.0.0.10"], "maxPods": 20}`, `,"ipPrefixCount":3`,
		`,"blockDeviceMappings":[{"deviceName":"b","ebs":{"volumeSize":"30Gi"}},{"deviceName":"a","ebs":{"volumeSize":"20Gi"}}]`,
	} {
		if hash(same, "ca") != first {
			t.Errorf("%s: the hash changes", same)
		}
	}
	seen := map[string]string{first: "the first"}
	for _, other := range []string{
		`,"role":"other"`, `,"userData":"x"`, `,"tags":{"a":"b"}`, `,"kubelet":{"maxPods":21,"clusterDNS":["10.0.0.10"]}`, `,"amiFamily":"Custom"`,
		`,"blockDeviceMappings":[{"deviceName":"a","ebs":{"volumeSize":"21Gi"}}]`, `,"detailedMonitoring":true`, `,"associatePublicIPAddress":false`,
		`,"metadataOptions":{"httpTokens":"optional"}`, `,"instanceStorePolicy":"RAID0"`, `,"context":"c"`, `,"connectionTracking":{"udpTimeout":30}`,
	} {
		h := hash(other, "ca")
		if before, ok := seen[h]; ok {
			t.Errorf("%s: the hash is that of %s", other, before)
		}
		seen[h] = other
	}
	if hash("", "another") == first {
		t.Error("the hash does not see the cluster's CA")
	}
}

func TestFamily(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"amiSelectorTerms":[{"alias":"al2@latest"}]}`, AMIFamilyAL2},
		{`{"amiSelectorTerms":[{"alias":"al2023@latest"}]}`, AMIFamilyAL2023},
		{`{"amiSelectorTerms":[{"alias":"bottlerocket@v1"}]}`, AMIFamilyBottlerocket},
		{`{"amiSelectorTerms":[{"alias":"windows2025@latest"}]}`, AMIFamilyWindows2025},
		{`{"amiSelectorTerms":[{"alias":"al2023@latest"}],"amiFamily":"Custom"}`, AMIFamilyCustom},
		{`{"amiSelectorTerms":[{"id":"ami-1"}]}`, ""},
	} {
		if have := spec(t, c.text).Family(); have != c.want {
			t.Errorf("%s: have %q, want %q", c.text, have, c.want)
		}
	}
}
