package yamledit

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSet changes one value of a values file of usual size, and of a large one.
func BenchmarkSet(b *testing.B) {
	for _, services := range []int{10, 5000} {
		var s strings.Builder
		for i := range services {
			fmt.Fprintf(&s, "svc%d:\n  image: {repository: registry.example.com/acme/svc%d, tag: v1.0.%d} # by CI\n  replicas: %d\n  env:\n    - name: REGION\n      value: \"eu-%d\"\n", i, i, i, i%5, i)
		}
		src := []byte(s.String())
		b.Run(fmt.Sprintf("%dKiB", len(src)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, err := Set(src, fmt.Sprintf("svc%d.image.tag", services/2), "v2.0.0"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
