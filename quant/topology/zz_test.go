package topology
import ("testing";"fmt")
func TestZZ(t *testing.T){
 for _,n:=range fixtures(t){ m:=resolveFixture(t,n); fmt.Println("==",n,"|",m.Summary,"| L",m.Layers,m.MTPLayers,"E",m.ExpertLayers,m.MTPExpertLayers,m.Experts,m.ExpertMatrices,"shared",m.SharedExperts,"tied",m.Tied,m.HeadStored,"active",m.ActiveParams,len(m.Matrices))
  for _,u:=range m.Unknown{fmt.Println("   unknown",u)}
  for _,u:=range m.Unresolved{fmt.Println("   unresolved",u)}
  for _,u:=range m.Findings{fmt.Println("   finding",u)}
 }
}
