// Shardy's operations: what a partitioner would do stays as annotations.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s

// CHECK-LABEL: ENTRY %main
// CHECK: %a = f32[8,8]{1,0} parameter(0), sharding={mesh['x'=2,'y'=2], [{'x'}, {'y'}]}
// CHECK: %custom-call = f32[8,8]{1,0} custom-call(%a), custom_call_target="Sharding", sharding={mesh['x'=2,'y'=2], [{'y'}, {'x'}]}
// CHECK: %custom-call.1 = f32[8,8]{1,0} custom-call(%custom-call), custom_call_target="Sharding", sharding={mesh['x'=2,'y'=2], [{'x', 'y'}, {}]}
// CHECK: %call = f32[8,8]{1,0} call(%custom-call.1), to_apply=%region
// CHECK: %b = f32[8,8]{1,0} parameter(1), sharding={mesh['x'=2,'y'=2], device_ids=(3,2,1,0), [{'x', ?}, {}], replicated={'y'}}
// CHECK: %add = f32[8,8]{1,0} add(%call, %b), sharding={mesh['x'=2,'y'=2], [{'x'}, {'y'}]}
// CHECK: ROOT %tuple = (f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(%call, %add)
module @sdy attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@turned, [{"x", ?}, {}], replicated={"y"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}]>}, tensor<8x8xf32>) {
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}, {"x"}]> : tensor<8x8xf32>
    %1 = sdy.reshard %0 <@mesh, [{"x", "y"}, {}]> : tensor<8x8xf32>

    %3 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<8x8xf32>
    sdy.sharding_group %3 group_id=7 : tensor<8x8xf32>
    "sdy.sharding_group"(%3) {group_id = 8 : i64} : (tensor<8x8xf32>) -> ()
    %4 = sdy.named_computation<"block">(%3) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] (%c: tensor<8x8xf32>) {
      %d = stablehlo.add %c, %c : tensor<8x8xf32>
      sdy.return %d : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = stablehlo.add %4, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    return %4, %6 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
