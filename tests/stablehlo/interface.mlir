// What is said of arguments and results: aliases, donors, layouts, shardings, counts, names and locations.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
#loc1 = loc("jit(step)/mul"("model.py":12:7 to :20))
// CHECK: HloModule jit_step, input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->(f32[2,3]{1,0}, f32[3,2]{0,1})}, replica_count=2, num_partitions=2, frontend_attributes={note="x"}
module @jit_step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32, mhlo.frontend_attributes = {note = "x"}} {
  // CHECK: ENTRY %main (state__w__: f32[2,3], v_odd_name: f32[2,3]) -> (f32[2,3], f32[3,2]) {
  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32, mhlo.layout_mode = "{0,1}", mhlo.sharding = "{devices=[2,1]<=[2]}"} loc("state['w']"),
                         %odd$name: tensor<2x3xf32> {jax.buffer_donor = true, mhlo.layout_mode = "default"})
      -> (tensor<2x3xf32> {jax.result_info = ""}, tensor<3x2xf32> {mhlo.layout_mode = "{0,1}"}) {
    // CHECK: %state__w__ = f32[2,3]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="state[\'w\']"}
    // CHECK: multiply(%state__w__, %v_odd_name), metadata={op_type="multiply" op_name="jit(step)/mul" source_file="model.py" source_line=12 source_column=7}
    %0 = stablehlo.multiply %arg0, %odd$name : tensor<2x3xf32> loc(#loc1)
    // CHECK: transpose({{.*}}), dimensions={1,0}, metadata={op_type="transpose" op_name="f" source_file="g.py" source_line=3 source_column=1}
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32> loc(callsite("f"("g.py":3:1) at "main"("m.py":9:9)))
    // CHECK: add({{.*}}), frontend_attributes={kind="sum"}, metadata={op_type="add" op_name="a"}
    %2 = stablehlo.add %1, %1 {mhlo.frontend_attributes = {kind = "sum"}} : tensor<3x2xf32> loc(fused["a", "b"])
    return %0, %2 : tensor<2x3xf32>, tensor<3x2xf32>
  } loc(unknown)
}
