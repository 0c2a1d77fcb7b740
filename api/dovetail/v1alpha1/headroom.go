// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindHeadroom is the kind of a Headroom.
const KindHeadroom = "Headroom"

// LabelHeadroom is on a CapacityBuffer that was made for a Headroom of its namespace: the Headroom's name, or the start
// of it.
const LabelHeadroom = Group + "/headroom"

// Headroom defines the capacity to hold ahead of demand: for which workloads, when, and at what cost. Dovetail creates
// CapacityBuffers that the Headroom owns, and launches nodes for them.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=headrooms,scope=Namespaced,categories=autoscaling,shortName=hr
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.mode"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Held",type="integer",JSONPath=".status.held",description="Number of pods with held capacity; an estimate in mode Recommend."
// +kubebuilder:printcolumn:name="$/h",type="string",JSONPath=".status.heldDollarsPerHour"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.nextWindow.name"
// +kubebuilder:printcolumn:name="Opens",type="string",JSONPath=".status.nextWindow.opens"
// +kubebuilder:printcolumn:name="Hits",type="integer",JSONPath=".status.lastWeek.hits"
// +kubebuilder:printcolumn:name="Misses",type="integer",JSONPath=".status.lastWeek.misses"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Headroom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HeadroomSpec   `json:"spec"`
	Status HeadroomStatus `json:"status,omitempty"`
}

// HeadroomList is a list of Headrooms.
//
// +kubebuilder:object:root=true
type HeadroomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Headroom `json:"items"`
}

// HeadroomMode is whether a Headroom buys.
//
// +kubebuilder:validation:Enum=Off;Recommend;Active
type HeadroomMode string

// The modes of a Headroom.
const (
	HeadroomOff       HeadroomMode = "Off"       // nothing is worked out
	HeadroomRecommend HeadroomMode = "Recommend" // the status says what would have been held, spared and spent; nothing is bought
	HeadroomActive    HeadroomMode = "Active"    // capacity is held
)

// HeadroomSpec defines what capacity to hold, when, and its limits.
type HeadroomSpec struct {
	// Target selects the workloads to hold capacity for.
	//
	// +required
	Target HeadroomTarget `json:"target"`

	// Calendar lists the windows in which capacity is held.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	// +optional
	Calendar []HeadroomWindow `json:"calendar,omitempty"`

	// Learned configures capacity held for forecast demand, in addition to the calendar.
	//
	// +kubebuilder:default={}
	// +optional
	Learned HeadroomLearned `json:"learned,omitempty"`

	// Mode is Off, Recommend or Active. Default: Recommend, which launches nothing.
	//
	// +kubebuilder:default=Recommend
	// +optional
	Mode HeadroomMode `json:"mode,omitempty"`

	// Limits are the maximum capacity that this Headroom holds in total.
	//
	// +optional
	Limits HeadroomLimits `json:"limits,omitempty"`
}

// HeadroomTarget is a workload, a selector of workloads, or a PodTemplate, all in the Headroom's namespace.
//
// +kubebuilder:validation:XValidation:rule="(has(self.workload) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.podTemplateRef) ? 1 : 0) == 1",message="set exactly one of workload, selector and podTemplateRef"
type HeadroomTarget struct {
	// Workload is one object with a scale subresource.
	//
	// +optional
	Workload *HeadroomWorkload `json:"workload,omitempty"`

	// Selector selects Deployments and StatefulSets by their own labels. An empty selector selects all in the
	// namespace.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// PodTemplateRef references a PodTemplate. It has no replicas, so windows must set replicas, and there is no
	// forecast.
	//
	// +optional
	PodTemplateRef *HeadroomTemplateRef `json:"podTemplateRef,omitempty"`
}

// HeadroomWorkload names a workload.
type HeadroomWorkload struct {
	// APIVersion is the workload's group and version, such as apps/v1.
	//
	// +kubebuilder:default=apps/v1
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the workload, such as Deployment.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`

	// Name of the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// HeadroomTemplateRef names a PodTemplate.
type HeadroomTemplateRef struct {
	// Name of the PodTemplate.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// HeadroomWindow is a recurring window in which capacity is held. Exactly one of replicas, percent and asLastTime must
// be set.
type HeadroomWindow struct {
	// Name of the window, unique in the calendar.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// Schedule is the start of the window: a cron expression with five fields, or @hourly, @daily, @weekly, @monthly or
	// @yearly. Nodes are launched earlier, by their startup time.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Schedule string `json:"schedule"`

	// TimeZone is the IANA time zone of the schedule, such as Europe/Berlin. Default: UTC.
	//
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// Duration is how long the window is open. It cannot exceed the time between two starts.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +required
	Duration metav1.Duration `json:"duration"`

	// Replicas is the total number of replicas with capacity during the window, including running ones. For a
	// PodTemplate, it is the number of pods.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Percent is the additional capacity, as a percentage of the replicas when nodes are first launched for the window.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// AsLastTime holds capacity for the maximum number of replicas in the previous window.
	//
	// +optional
	AsLastTime bool `json:"asLastTime,omitempty"`
}

// HeadroomLearned is how a minute that a pod waits is priced against a minute that room for one stands idle. Only the
// ratio matters: of 19 to 1, as much is held as suffices 19 times of 20.
type HeadroomLearned struct {
	// Disabled turns off forecasts, so that only the calendar is used.
	//
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// TimeZone is the IANA time zone of recurring spikes, such as Europe/Berlin, including daylight saving time.
	// Default: the time zone of all calendar windows if they have the same, otherwise UTC.
	//
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// WaitingCost is the cost of one minute that a pod waits for a node, relative to idleCost. Default, by pod
	// priority: 4 below 0, 100 from 1000000, otherwise 20.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	WaitingCost *int64 `json:"waitingCost,omitempty"`

	// IdleCost is the cost of one minute of idle capacity for one pod. Default: 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	IdleCost *int64 `json:"idleCost,omitempty"`
}

// HeadroomLimits bound what is held in sum.
type HeadroomLimits struct {
	// Replicas is the maximum number of pods with held capacity.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Resources limits the total requests of pods with held capacity.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// DollarsPerHour is the maximum hourly cost of nodes for held capacity at list prices, such as "12.50".
	//
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]{1,6})?$`
	// +kubebuilder:validation:MaxLength=16
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`
}

// Conditions of a Headroom.
const (
	// ConditionHeadroomReady is False while the spec can't be carried out: nothing is bought then.
	ConditionHeadroomReady = "Ready"
	// ConditionHolding is True while capacity is held.
	ConditionHolding = "Holding"
	// ConditionWithinLimits is False while a limit keeps this Headroom from holding all that it wants.
	ConditionWithinLimits = "WithinLimits"
)

// HeadroomStatus is the capacity held now, the next window, and the results of the last week.
type HeadroomStatus struct {
	// ObservedGeneration is the generation of the spec that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Holding and WithinLimits.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Held is the number of pods with held capacity. In mode Recommend, it is an estimate.
	//
	// +optional
	Held int32 `json:"held"`

	// HeldDollarsPerHour is the hourly cost of held capacity at list prices. Empty if the price is unknown.
	//
	// +optional
	HeldDollarsPerHour string `json:"heldDollarsPerHour,omitempty"`

	// LeadSeconds is the startup time of nodes (NodeClaim to Ready): the 95th percentile of recent ones, or 120 without
	// any.
	//
	// +optional
	LeadSeconds int64 `json:"leadSeconds,omitempty"`

	// NextWindow is the current or next window of the calendar.
	//
	// +optional
	NextWindow *HeadroomNextWindow `json:"nextWindow,omitempty"`

	// Workloads is the held capacity by workload.
	//
	// +optional
	Workloads []HeadroomWorkloadStatus `json:"workloads,omitempty"`

	// LastWeek is the total of the last seven days.
	//
	// +optional
	LastWeek HeadroomRecord `json:"lastWeek,omitempty"`

	// Days are the days of LastWeek, oldest first.
	//
	// +optional
	Days []HeadroomDay `json:"days,omitempty"`
}

// HeadroomNextWindow is one opening of a window.
type HeadroomNextWindow struct {
	Name string `json:"name"`
	// LaunchFrom is when launching nodes for it begins.
	LaunchFrom metav1.Time `json:"launchFrom"`
	Opens      metav1.Time `json:"opens"`
	Closes     metav1.Time `json:"closes"`
}

// HeadroomWorkloadStatus is the held capacity of one workload.
type HeadroomWorkloadStatus struct {
	// Group is the API group of the kind. Empty means the core group.
	//
	// +optional
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	// Replicas is the current number of requested replicas.
	Replicas int32 `json:"replicas"`
	// Wanted is the number of additional pods that should have capacity; Held is that number after limits.
	Wanted int32 `json:"wanted"`
	Held   int32 `json:"held"`
	// Coming is the number of created pods without a node whose capacity is still held.
	//
	// +optional
	Coming int32 `json:"coming,omitempty"`
	// For is the cause: the name of a window, or forecast. Empty if no capacity is wanted.
	//
	// +optional
	For string `json:"for,omitempty"`
	// Windows lists upcoming and open windows, with the replicas when nodes were first launched for each.
	//
	// +optional
	Windows []HeadroomWindowStatus `json:"windows,omitempty"`
	// NextHour is the forecast of replicas for each quarter of the next hour. Empty if there is too little history.
	//
	// +optional
	NextHour []int32 `json:"nextHour,omitempty"`
	// Spikes lists recurring spikes that may occur in the next hour.
	//
	// +optional
	Spikes []HeadroomSpike `json:"spikes,omitempty"`
}

// HeadroomWindowStatus is a window that is prepared or open.
type HeadroomWindowStatus struct {
	Name     string      `json:"name"`
	Opens    metav1.Time `json:"opens"`
	Replicas int32       `json:"replicas"`
}

// HeadroomSpike is a recurring spike that is expected.
type HeadroomSpike struct {
	// Pattern is Hourly, Daily, Workdays or Weekly.
	Pattern string      `json:"pattern"`
	From    metav1.Time `json:"from"`
	To      metav1.Time `json:"to"`
	// Rise is the expected increase in replicas.
	Rise int32 `json:"rise"`
	// ChancePercent is the probability that it occurs within the hour.
	ChancePercent int32 `json:"chancePercent"`
}

// HeadroomRecord is what was held and what came of it. In mode Recommend it is what would have been.
type HeadroomRecord struct {
	// Hits is the number of spikes with capacity held for all pods; Misses is the number of others.
	Hits   int32 `json:"hits"`
	Misses int32 `json:"misses"`
	// SparedPodMinutes is the waiting time avoided by held capacity; WaitedPodMinutes is the waiting time of pods in
	// spikes that was not avoided.
	SparedPodMinutes int64 `json:"sparedPodMinutes"`
	WaitedPodMinutes int64 `json:"waitedPodMinutes"`
	// IdlePodMinutes is unused held capacity; Dollars is its cost at list prices.
	IdlePodMinutes int64  `json:"idlePodMinutes"`
	Dollars        string `json:"dollars,omitempty"`
}

// HeadroomDay is the record of a day in UTC.
type HeadroomDay struct {
	Date           string `json:"date"`
	HeadroomRecord `json:",inline"`
}
