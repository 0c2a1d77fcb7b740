// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Need is the demand of a pod for devices.
type Need struct {
	Amounts     map[string]int64      // resource name -> amount
	NodeTerms   []corev1.NodeSelector // from allocated claims: a node of the pod must match all of them
	Node        string                // node on which claims of the pod are allocated; empty: none
	Mark        string                // identifies how the pod requests devices; empty: it can share a node with all pods
	Apart       []string              // Marks of pods that may not be on its node, because they request some of the same devices in another way; sorted
	Unsupported []string              // sentences: why the pod cannot be placed
	Extended    map[string]int64      // its requests of extended resources of a DeviceClass; included in Amounts
	Claims      string                // hash of all claims of the pod: equal from their templates until their deletion, independent of other objects
}

// podUse is what the Book remembers of a pod.
type podUse struct {
	objects   map[string]bool // claims and templates, as keys of Book.users
	signature string          // key; empty: none
	bound     bool            // to a node
	allocated bool            // all that it claims
	claims    int
	blocked   bool // kube-scheduler can't place it, whoever uses its claims
}

// OfPod returns the devices that a pod needs, and records that the pod uses its claims. The Need of a pod without claims and
// without extended resources of a DeviceClass is zero. A name with a slash, which no pod has, identifies a template of future pods:
// it does not count as a user of shared claims.
func (b *Book) OfPod(p *corev1.Pod) Need {
	key := p.Namespace + "/" + p.Name
	extended := b.extendedOf(p)
	if len(p.Spec.ResourceClaims) == 0 && extended == nil {
		if b.pods[key] != nil {
			b.ForgetPod(key)
		}
		return Need{}
	}
	use := &podUse{objects: map[string]bool{}, claims: len(p.Spec.ResourceClaims)}
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		if r.ResourceClaimTemplateName != nil {
			use.objects["template "+p.Namespace+"/"+*r.ResourceClaimTemplateName] = true
		}
		if name, _, err := resourceclaim.Name(p, r); err == nil && name != nil && !strings.Contains(p.Name, "/") {
			use.objects["claim "+p.Namespace+"/"+*name] = true
		}
	}
	old := b.pods[key]
	b.pods[key] = use
	b.use(key, old, use)

	need, list, all := b.need(key, p, use, extended)
	need.Extended = extended
	if old != nil && (old.bound != use.bound || old.blocked != use.blocked) {
		for object := range use.objects {
			b.touchUsers(object) // another of them may ask for the claim's devices
		}
	}
	sum := sha256.Sum256([]byte(signatureOf(all).key))
	need.Claims = hex.EncodeToString(sum[:16])
	if len(list) > 0 && len(need.Unsupported) == 0 {
		s := signatureOf(list)
		use.signature = s.key
		if b.signatures[s.key] == nil {
			b.signatures[s.key] = s
			b.staleWants = true
		}
		b.signatures[s.key].pods++
	}
	b.release(old)
	if use.signature == "" {
		return need
	}
	b.refresh()
	reason := b.layout.refused[use.signature]
	if o := metav1.GetControllerOfNoCopy(p); reason == "" && o != nil && o.Kind == "DaemonSet" {
		reason = b.layout.agents[use.signature]
	}
	if reason != "" {
		need.Unsupported = append(need.Unsupported, reason)
		return need
	}
	need.Amounts, need.Apart = maps.Clone(b.layout.demand[use.signature]), slices.Clone(b.layout.apart[use.signature])
	if b.signatures[use.signature].admin && use.allocated {
		need.Apart = nil // it has taken nothing from others
	}
	if b.layout.marked[use.signature] {
		need.Mark = b.signatures[use.signature].mark()
	}
	return need
}

// ForgetPod removes a pod that was deleted or has completed. Its key is namespace/name.
func (b *Book) ForgetPod(key string) {
	old := b.pods[key]
	if old == nil {
		return
	}
	delete(b.pods, key)
	delete(b.changedPods, key)
	b.use(key, old, &podUse{})
	b.release(old)
}

// use notes which objects a pod uses. The other pods of a claim may have another Need then.
func (b *Book) use(key string, old, now *podUse) {
	if old != nil {
		for object := range old.objects {
			if now.objects[object] {
				continue
			}
			delete(b.users[object], key)
			b.touchUsers(object)
			if len(b.users[object]) == 0 {
				delete(b.users, object)
			}
		}
	}
	for object := range now.objects {
		if b.users[object][key] {
			continue
		}
		b.touchUsers(object)
		if b.users[object] == nil {
			b.users[object] = map[string]bool{}
		}
		b.users[object][key] = true
	}
}

func (b *Book) touchUsers(object string) {
	if object[0] != 'c' {
		return
	}
	for pod := range b.users[object] {
		b.changedPods[pod] = true
	}
}

func (b *Book) release(u *podUse) {
	if u == nil || u.signature == "" {
		return
	}
	s := b.signatures[u.signature]
	if s.pods--; s.pods == 0 {
		delete(b.signatures, u.signature)
		b.staleWants = true
	}
}

// asker returns which of the pods that use a claim asks for its devices; the others go where it is. Those that have their node come first when the
// claim is allocated; a pod that kube-scheduler can't place comes last. Of others, the one with the fewest claims asks: the rest of what it
// claims may be nowhere. Empty: no pod uses it.
func (b *Book) asker(c *claim) string {
	users := b.users["claim "+c.object.Namespace+"/"+c.object.Name]
	place := func(key string) int {
		switch u := b.pods[key]; {
		case u.bound && c.object.Status.Allocation != nil:
			return 0
		case !u.bound && !u.blocked:
			return 1
		}
		return 2
	}
	first := ""
	for key := range users {
		if first == "" || cmp.Or(place(key)-place(first), b.pods[key].claims-b.pods[first].claims, cmp.Compare(key, first)) < 0 {
			first = key
		}
	}
	return first
}

// need returns the Need of a pod without its amounts, the requests that make them up, and all requests of its claims. It notes in use whether
// the pod can be placed, and whether its claims are allocated.
func (b *Book) need(key string, p *corev1.Pod, use *podUse, extended map[string]int64) (need Need, list, all []*asks) {
	var shares []*claim
	use.allocated = true
	refuse := func(format string, args ...any) {
		need.Unsupported = append(need.Unsupported, fmt.Sprintf(format, args...))
	}
	ask := func(object string, spec *resourceapi.ResourceClaimSpec) {
		a := asksOf(spec)
		need.Unsupported = append(need.Unsupported, b.problems(object, a)...)
		list, all = append(list, a), append(all, a)
	}
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(p, r)
		var c *resourceapi.ResourceClaim
		switch {
		case err == nil && name == nil:
			continue // no claim is needed
		case err == nil && b.claims[p.Namespace+"/"+*name] != nil:
			c = b.claims[p.Namespace+"/"+*name].object
		}
		if r.ResourceClaimName == nil && r.ResourceClaimTemplateName == nil {
			refuse("spec.resourceClaims[%d] names neither a ResourceClaim nor a ResourceClaimTemplate, which is not supported; set one of them", i)
			continue
		}
		use.allocated = use.allocated && c != nil && c.Status.Allocation != nil
		if c == nil {
			if r.ResourceClaimName != nil {
				refuse("ResourceClaim %s/%s not found; create it or correct spec.resourceClaims[%d]", p.Namespace, *r.ResourceClaimName, i)
			} else if t := b.templates[p.Namespace+"/"+*r.ResourceClaimTemplateName]; t != nil {
				ask(fmt.Sprintf("ResourceClaimTemplate %s/%s", t.Namespace, t.Name), &t.Spec.Spec)
			} else {
				refuse("ResourceClaimTemplate %s/%s not found; create it or correct spec.resourceClaims[%d]", p.Namespace, *r.ResourceClaimTemplateName, i)
			}
			continue
		}
		object := fmt.Sprintf("ResourceClaim %s/%s", c.Namespace, c.Name)
		if r.ResourceClaimTemplateName != nil && p.UID != "" {
			if err := resourceclaim.IsForPod(p, c, false); err != nil {
				refuse("%v; delete one of them", err)
			}
		}
		if c.DeletionTimestamp != nil && p.Spec.NodeName == "" {
			refuse("%s is being deleted; wait, or create it again", object)
		}
		users := b.users["claim "+p.Namespace+"/"+c.Name]
		shared := r.ResourceClaimName != nil && (len(users) > 1 || slices.ContainsFunc(c.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
			return r.UID != p.UID
		}))
		if shared {
			this := asksOf(&c.Spec)
			shares, all = append(shares, b.claims[p.Namespace+"/"+c.Name]), append(all, this)
			if c.Status.Allocation == nil {
				need.Unsupported = append(need.Unsupported, b.problems(object, this)...)
			}
		} else {
			ask(object, &c.Spec)
		}
		if a := c.Status.Allocation; a != nil {
			if a.NodeSelector != nil && (shared || p.Spec.NodeName == "") {
				need.NodeTerms = append(need.NodeTerms, *a.NodeSelector)
			}
			if !shared {
				need.Node = b.nodeOf(b.claims[p.Namespace+"/"+c.Name])
			}
		}
	}
	if extended != nil {
		a := b.asksOfExtended(extended)
		need.Unsupported = append(need.Unsupported, b.problems("the pod", a)...)
		list, all = append(list, a), append(all, a)
		c := b.extendedClaim(p)
		use.allocated = use.allocated && c != nil && c.object.Status.Allocation != nil
		if c != nil && c.object.Status.Allocation != nil {
			need.Node = cmp.Or(need.Node, b.nodeOf(c))
			if s := c.object.Status.Allocation.NodeSelector; s != nil && p.Spec.NodeName == "" {
				need.NodeTerms = append(need.NodeTerms, *s)
			}
		}
	}
	use.bound = p.Spec.NodeName != ""
	use.blocked = len(need.Unsupported) > 0 || len(p.Spec.SchedulingGates) > 0 || cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName) != corev1.DefaultSchedulerName
	for _, c := range shares {
		switch asker := b.asker(c); {
		case asker == key || asker == "" && c.object.Status.Allocation == nil:
			list = append(list, asksOf(&c.object.Spec))
			need.Node = cmp.Or(need.Node, b.nodeOf(c))
		case c.object.Status.Allocation == nil:
			refuse("waits until kube-scheduler has allocated ResourceClaim %s/%s, which pod %s uses too", c.object.Namespace, c.object.Name, asker)
		}
	}
	return need, list, all
}

// nodeOf returns the node that has the devices of an allocated claim; empty: none, or several.
func (b *Book) nodeOf(c *claim) string {
	for _, id := range c.pools {
		for _, s := range b.pools[id] {
			if s.node != "" {
				return s.node
			}
		}
	}
	return ""
}
