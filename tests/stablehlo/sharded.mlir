// Shardings by the axes of meshes, as text and as jax.export writes it.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxc --emit=hlo --passes=none %S/inputs/sharded.mlirbc | FileCheck %s
// CHECK-DAG: {{%[^ ,()]+}} = f32[8,8]{1,0} parameter(0), sharding={mesh['x'=4,'y'=2], [{'x'}, {'y'}]}
// CHECK-DAG: {{%[^ ,()]+}} = f32[8,8]{1,0} custom-call({{%[^ ,()]+}}), custom_call_target="Sharding", sharding={mesh['x'=4,'y'=2], [{'y'}, {'x'}]}
// CHECK-DAG: {{%[^ ,()]+}} = f32[8,8]{1,0} custom-call({{%[^ ,()]+}}), custom_call_target="Sharding", sharding={mesh['x'=4,'y'=2], [{'x':(1)2, 'y'}, {?}], replicated={'x':(2)2{{[}][}]}}
// CHECK-DAG: {{%[^ ,()]+}} = f32[16,8]{1,0} all-gather({{%[^ ,()]+}}), channel_id=2, replica_groups=mesh['x'=4,'y'=2] {'x':(1)2}, dimensions={0}, use_global_device_ids=true
// CHECK-DAG: {{%[^ ,()]+}} = f32[8,8]{1,0} slice({{%[^ ,()]+}}), slice={[0:8], [0:8]}
// CHECK-DAG: ROOT {{%[^ ,()]+}} = f32[8,8]{1,0} add({{%[^ ,()]+}}, {{%[^ ,()]+}}), sharding={mesh['x'=4,'y'=2], [{'x'}, {'y'}]}
module @sharded attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  sdy.mesh @turned = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@turned, [{"x", ?}, {}], replicated={"y"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}, {"x"}]> : tensor<8x8xf32>
    %1 = sdy.reshard %0 <@mesh, [{"x":(1)2, "y"}p1, {?}p0], replicated={"x":(2)2}> : tensor<8x8xf32>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>]>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 0>, use_global_device_ids}> : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %3 = stablehlo.slice %2 [0:8, 0:8] : (tensor<16x8xf32>) -> tensor<8x8xf32>
    %4 = stablehlo.add %3, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  }
}
