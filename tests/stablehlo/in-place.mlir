// Functions of unknown sizes stand in place of their calls, those of composites, too; their regions use what they define.
// RUN: %gxrun %s --device=ref | FileCheck %s
// RUN: %gxrun %s --device=emu --compare=ref | FileCheck %s --check-prefix=EQUAL
module {
  func.func private @twice_if(%n: tensor<i32>, %x: tensor<?xf32>, %p: tensor<i1>) -> tensor<?xf32> {
    %d = stablehlo.add %x, %x : tensor<?xf32>
    %r = "stablehlo.if"(%p) ({
      %1 = stablehlo.add %d, %x : tensor<?xf32>
      stablehlo.return %1 : tensor<?xf32>
    }, {
      stablehlo.return %d : tensor<?xf32>
    }) : (tensor<i1>) -> tensor<?xf32>
    return %r : tensor<?xf32>
  }
  func.func private @double(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
  func.func public @main() -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %x = stablehlo.constant dense<[1.0, 2.0, -3.0, 4.0]> : tensor<4xf32>
    %p = stablehlo.constant dense<true> : tensor<i1>
    %q = stablehlo.constant dense<false> : tensor<i1>
    %c = stablehlo.constant dense<4> : tensor<i32>
    %y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>
    %0 = call @twice_if(%c, %y, %p) : (tensor<i32>, tensor<?xf32>, tensor<i1>) -> tensor<?xf32>
    %1 = call @twice_if(%c, %y, %q) : (tensor<i32>, tensor<?xf32>, tensor<i1>) -> tensor<?xf32>
    %2 = stablehlo.composite "my.op" %y {composite_attributes = {}, decomposition = @double} : (tensor<?xf32>) -> tensor<?xf32>
    return %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
}
// CHECK: result 0 f32[4]{{.*}}  3, 6, -9, 12
// CHECK: result 1 f32[4]{{.*}}  2, 4, -6, 8
// CHECK: result 2 f32[4]{{.*}}  2, 4, -6, 8
// EQUAL: compare 0 {{.*}}equal
