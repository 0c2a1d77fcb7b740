// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
)

// NodeTemplate converts an AWSNodeTemplate to an EC2NodeClass, and returns which fields were converted. It returns nil
// and an error if no EC2NodeClass is equivalent.
func NodeTemplate(n *awsv1alpha1.AWSNodeTemplate, defaults ProvisionerDefaults) (*awsv1.EC2NodeClass, awsv1alpha1.Translation, error) {
	out := &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: awsv1.GroupVersion.String(), Kind: awsv1.KindEC2NodeClass},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(n, awsv1alpha1.GroupVersion.WithKind(awsv1alpha1.KindAWSNodeTemplate))}},
	}
	said := awsv1alpha1.Translation{ObservedGeneration: n.Generation, EC2NodeClass: n.Name}
	t := ec2Translation{
		in: n.Spec.DeepCopy(), at: "spec", defaults: defaults, out: &out.Spec,
		came: func(from, to string) {
			said.Translated = append(said.Translated, awsv1alpha1.TranslatedField{Field: from, EC2NodeClassField: strings.TrimPrefix(to, awsv1.KindEC2NodeClass+" ")})
		},
		lost: func(field, why string) {
			said.Untranslated = append(said.Untranslated, karpv1alpha5.UntranslatedField{Field: field, Message: why})
		},
	}
	if err := t.run(); err != nil {
		return nil, awsv1alpha1.Translation{ObservedGeneration: n.Generation, Untranslated: []karpv1alpha5.UntranslatedField{{Field: "spec", Message: err.Error()}}}, err
	}
	return out, said, nil
}
