// Loops, branches and calls: what a region uses of outside is handed in; a reducer makes constants of outside again.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxrun %s --device=ref | FileCheck %s --check-prefix=OUT

module @control {
  // The bound and the step stand in the loop, %y comes along.
  // CHECK: %region{{.*}} (state{{.*}}: (s32[], f32[3], f32[3])) -> (s32[], f32[3], f32[3]) {
  // CHECK: %one = s32[] constant(1)
  // CHECK: %n = s32[] add(%k{{.*}}, %one)
  // CHECK: ROOT %{{.*}} = (s32[], f32[3]{0}, f32[3]{0}) tuple(%n, %a, %{{.*}})
  // CHECK: %region{{.*}} (l: f32[], m: f32[]) -> f32[] {
  // CHECK: %two{{.*}} = f32[] constant(2)
  // CHECK: %twice (v: f32[3]) -> (f32[3], f32[3]) {
  func.func private @twice(%v: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.add %v, %v : tensor<3xf32>
    return %0, %v : tensor<3xf32>, tensor<3xf32>
  }
  // CHECK: ENTRY %main () ->
  func.func @main() -> (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<3xf32>) {
    %x = stablehlo.iota dim = 0 : tensor<3xf32>
    %y = stablehlo.add %x, %x : tensor<3xf32>
    %p = stablehlo.constant dense<false> : tensor<i1>
    %i = stablehlo.constant dense<7> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    // CHECK-DAG: while(%{{.*}}), condition=
    %w:2 = stablehlo.while(%k = %zero, %acc = %y) : tensor<i32>, tensor<3xf32>
     cond {
      %c = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %k, %one : tensor<i32>
      %a = stablehlo.add %acc, %y : tensor<3xf32>
      stablehlo.return %n, %a : tensor<i32>, tensor<3xf32>
    }
    // CHECK-DAG: conditional(%p, {{.*}}), true_computation={{.*}}, false_computation=
    %b = "stablehlo.if"(%p) ({
      %t = stablehlo.negate %y : tensor<3xf32>
      stablehlo.return %t : tensor<3xf32>
    }, {
      stablehlo.return %w#1 : tensor<3xf32>
    }) : (tensor<i1>) -> tensor<3xf32>
    // CHECK-DAG: reduce(%x, %f), dimensions={0}
    %f = stablehlo.constant dense<0.0> : tensor<f32>
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %r = stablehlo.reduce(%x init: %f) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
     reducer(%l: tensor<f32>, %m: tensor<f32>) {
      %t = stablehlo.multiply %m, %two : tensor<f32>
      %u = stablehlo.add %l, %t : tensor<f32>
      stablehlo.return %u : tensor<f32>
    }
    %c:2 = call @twice(%x) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
    // CHECK-DAG: conditional(%i, {{.*}}), branch_computations={
    %e = "stablehlo.case"(%i) ({
      stablehlo.return %c#0 : tensor<3xf32>
    }, {
      stablehlo.return %c#1 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    return %w#1, %b, %r, %e : tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<3xf32>
  }
}
// OUT: result 0 f32[3]  {{.*}}  0, 8, 16
// OUT: result 1 f32[3]  {{.*}}  0, 8, 16
// OUT: result 2 f32[]  {{.*}}  6
// OUT: result 3 f32[3]  {{.*}}  0, 1, 2
