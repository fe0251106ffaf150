// What talks to other devices; a main that is a manual computation is what one device does.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// CHECK: HloModule m, entry_computation_layout={(f32[4,2]{1,0}, f32[4]{0})->(f32[2,4]{1,0}, f32[8,2]{1,0}, f32[2,2]{1,0}, f32[4,2]{1,0}, f32[4]{0})}, num_partitions=4
module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func @main(%x: tensor<8x2xf32>, %y: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<8x2xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<4xf32>) {
    // CHECK: ENTRY %main (x: f32[4,2], y: f32[4])
    %0:5 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"a"}, {}]>, <@mesh, [{"a"}, {}]>, <@mesh, [{}]>] manual_axes={"a", "b"} (%p: tensor<4x2xf32>, %q: tensor<4xf32>) {
      // split and concatenated along other dimensions
      // CHECK-DAG: %[[R:.*]] = f32[2,2,2]{2,1,0} reshape(%x)
      // CHECK-DAG: %[[A:.*]] = f32[2,2,2]{2,1,0} all-to-all(%[[R]]), channel_id=1, replica_groups={{[{][{]0,1[}],[{]2,3[}][}]}}, dimensions={0}
      // CHECK-DAG: %[[T:.*]] = f32[2,2,2]{2,1,0} transpose(%[[A]]), dimensions={1,0,2}
      // CHECK-DAG: f32[2,4]{1,0} reshape(%[[T]])
      %1 = "stablehlo.all_to_all"(%p) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4x2xf32>) -> tensor<2x4xf32>
      // CHECK-DAG: all-gather(%x), channel_id=2, replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}, use_global_device_ids=true
      %2 = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "a">]>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 0>, use_global_device_ids}> : (tensor<4x2xf32>) -> tensor<8x2xf32>
      // CHECK-DAG: reduce-scatter(%x), channel_id=3, replica_groups={{[{][{]0,2[}],[{]1,3[}][}]}}, use_global_device_ids=true, dimensions={0}, to_apply=
      %3 = "stablehlo.reduce_scatter"(%p) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids}> ({
      ^bb0(%l: tensor<f32>, %m: tensor<f32>):
        %s = stablehlo.add %l, %m : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x2xf32>) -> tensor<2x2xf32>
      // CHECK-DAG: collective-permute(%x), channel_id=4, source_target_pairs={{[{][{]0,1[}],[{]1,0[}][}]}}
      %4 = "stablehlo.collective_permute"(%p) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
      // groups of different sizes are filled up with -1
      // CHECK-DAG: all-reduce(%y), replica_groups={{[{][{]0,1,2[}],[{]3[}][}]}}, to_apply=
      %5 = "stablehlo.all_reduce"(%q) <{replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>}> ({
      ^bb0(%l: tensor<f32>, %m: tensor<f32>):
        %s = stablehlo.maximum %l, %m : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1, %2, %3, %4, %5 : tensor<2x4xf32>, tensor<8x2xf32>, tensor<2x2xf32>, tensor<4x2xf32>, tensor<4xf32>
    } : (tensor<8x2xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<8x2xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<4xf32>)
    return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<4x4xf32>, tensor<8x2xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<4xf32>
  }
}
