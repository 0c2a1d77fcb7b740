// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// workloads runs the articles' other pods: by zone and capacity type, and onto tainted nodes, which a Provisioner with an
// AWSNodeTemplate launches. A Provisioner whose taint is a preference is there too.
func workloads(e *env, deployments string) {
	e.t.Helper()
	documents := strings.Split(walkthrough(e.t, "004-workloads.yaml"), "\n---\n")
	if len(documents) != 3 {
		e.t.Fatalf("%d documents, want two Deployments and a Provisioner", len(documents))
	}
	e.must(e.s.Create(e.ctx, provisioners, documents[2]))
	e.must(e.s.Create(e.ctx, "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates",
		`{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: tainted}, spec: {subnetSelector: {karpenter.sh/discovery: sandbox}, securityGroupSelector: {karpenter.sh/discovery: sandbox}}}`))
	e.must(e.s.Create(e.ctx, provisioners, `{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: tainted}, spec: {providerRef: {name: tainted},
		labels: {Karpenter: enabled}, taints: [{key: karpenter, value: "true", effect: NoSchedule}], ttlSecondsAfterEmpty: 1}}`))
	e.must(e.s.Create(e.ctx, deployments, documents[0]))
	e.must(e.s.Create(e.ctx, deployments, documents[1]))
	for _, p := range e.podsRun(5) {
		n, err := e.s.Kube.CoreV1().Nodes().Get(e.ctx, p.Spec.NodeName, metav1.GetOptions{})
		e.must(err)
		l := n.Labels
		if p.Labels["app"] == "dotori" && (l[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot || l[corev1.LabelTopologyZone] != "us-east-1a") {
			e.t.Errorf("pod %s asks for spot in us-east-1a and runs on a node with %v", p.Name, l)
		}
		if p.Labels["app"] == "tolerant" && l[karpv1.LabelNodePool] != "tainted" {
			e.t.Errorf("pod %s asks for tainted nodes and runs on a node with %v", p.Name, l)
		}
	}
	for _, name := range []string{"dotori", "tolerant"} {
		e.must(e.s.Delete(e.ctx, deployments+"/"+name, ""))
	}
	e.podsRun(0)
	e.must(e.s.Patch(e.ctx, "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates/tainted", `{"spec":{"tags":{"team":"web"}}}`))
	e.until("the EC2NodeClass has the tags of its AWSNodeTemplate", func() error {
		class, err := sandbox.Get[awsv1.EC2NodeClass](e.ctx, e.s, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/tainted")
		if err == nil && class.Spec.Tags["team"] != "web" {
			err = fmt.Errorf("tags are %v", class.Spec.Tags)
		}
		return err
	})
	e.must(e.s.Delete(e.ctx, provisioners+"/tainted", ""))
	e.must(e.s.Delete(e.ctx, provisioners+"/prefer-not", ""))
}

// walkthrough is a manifest as an article has it, but for what each reader puts in: the name of the cluster, and here
// shorter times.
func walkthrough(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/walkthroughs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("mz-karpenter", "sandbox", "ap-northeast-2a", "us-east-1a", "ttlSecondsAfterEmpty: 30", "ttlSecondsAfterEmpty: 1", "ttlSecondsUntilExpired: 1800", "ttlSecondsUntilExpired: 30").Replace(string(raw))
}

// The articles of Karpenter's early years, on EC2: a Provisioner with selectors and no instance profile, a pod that
// chooses it by name, and a Deployment of 1, 5, 20, 10, 5 and 0 pods whose nodes expire meanwhile.
func TestWalkthrough(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t, "--cloud", "aws", "--controller-arg", "--default-instance-profile=sandbox-node")
	e := newEnv(t, s, "walkthrough")
	deployments := "/apis/apps/v1/namespaces/" + e.name + "/deployments"
	claimsOfDefault := func() []karpv1.NodeClaim {
		list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, s, claims, "labelSelector", karpv1.LabelNodePool+"=default")
		e.must(err)
		return list.Items
	}
	e.must(s.Create(e.ctx, deployments, walkthrough(t, "000-deployment.yaml"))) // limits only, affinity to karpenter.sh/provisioner-name
	e.must(s.Create(e.ctx, provisioners, walkthrough(t, "002-provisioner.yaml")))
	e.podsRun(1)
	if k, err := sandbox.Get[awsv1.EC2NodeClass](e.ctx, s, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"); err != nil ||
		k.Spec.InstanceProfile == nil || *k.Spec.InstanceProfile != "sandbox-node" || k.Spec.AMISelectorTerms[0].Alias != "al2023@latest" {
		t.Fatalf("the class is %+v, %v, want the default instance profile and AL2023", k.Spec, err)
	}
	e.until("the Provisioner says what its class is made of", func() error {
		p, err := sandbox.Get[karpv1alpha5.Provisioner](e.ctx, s, provisioners+"/default")
		if err != nil {
			return err
		}
		if c := conditionOf(p.Status.Conditions, karpv1alpha5.ConditionTranslated); c == nil || c.Status != metav1.ConditionTrue || p.Status.Translation == nil {
			return fmt.Errorf("conditions %s", conditionsText(p.Status.Conditions))
		}
		for _, want := range []string{"the controller's default", "AL2 is not published for Kubernetes"} {
			if !slices.ContainsFunc(p.Status.Translation.Translated, func(f karpv1alpha5.TranslatedField) bool { return strings.Contains(f.NodePoolField, want) }) {
				return fmt.Errorf("nothing says %q: %+v", want, p.Status.Translation.Translated)
			}
		}
		return nil
	})
	e.must(s.Delete(e.ctx, deployments+"/test-pod", ""))
	workloads(e, deployments)

	e.must(s.Create(e.ctx, deployments, walkthrough(t, "002-deployment.yaml")))
	for _, n := range []int{1, 5, 20} {
		e.scale("app", n)
		e.podsRun(n)
	}
	old := map[string]bool{}
	for _, c := range claimsOfDefault() {
		old[c.Name] = true
	}
	if len(old) == 0 {
		t.Fatal("20 pods run, but the Provisioner has no node")
	}
	// Where every node expires after half a minute, so do those that a replacement counts on. Its candidate backs off then, five minutes at most.
	e.untilWithin(2*limit, "every node has expired and others stand in its place", func() error {
		for _, c := range claimsOfDefault() {
			if old[c.Name] {
				return fmt.Errorf("%s is there", c.Name)
			}
		}
		return nil
	})
	for _, n := range []int{20, 10, 5} {
		e.scale("app", n)
		e.podsRun(n)
	}
	e.scale("app", 0)
	e.until("nodes and instances are gone", func() error {
		var b awstest.Books
		if err := s.AWS(e.ctx, http.MethodGet, "/_aws/books?tag="+awstest.ClaimUIDTag, nil, &b); err != nil {
			return err
		}
		if have := claimsOfDefault(); len(have)+len(b.Alive) > 0 || len(b.Twice) > 0 {
			return fmt.Errorf("%d claims and %d instances are left; launched twice: %v", len(have), len(b.Alive), b.Twice)
		}
		return nil
	})
	e.must(s.Delete(e.ctx, provisioners+"/default", ""))
}
