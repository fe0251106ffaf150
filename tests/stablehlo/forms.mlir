// The pretty forms of StableHLO and the HLO that they become.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s

// CHECK: HloModule forms, entry_computation_layout={(f32[4,6]{1,0}, f32[4,6]{1,0}, s32[3]{0}, f32[])->
module @forms attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %n: tensor<3xi32>, %s: tensor<f32>)
      -> (tensor<6xf32> {jax.result_info = ""}, tensor<4x6xf32>) {
    // CHECK-DAG: %add = f32[4,6]{1,0} add(%x, %y)
    %0 = stablehlo.add %x, %y : tensor<4x6xf32>
    // CHECK-DAG: %compare = pred[4,6]{1,0} compare(%x, %y), direction=LT
    %1 = stablehlo.compare LT, %x, %y, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    // CHECK-DAG: %compare.1 = pred[4,6]{1,0} compare(%x, %y), direction=GE, type=TOTALORDER
    %2 = stablehlo.compare GE, %x, %y, TOTALORDER : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    // CHECK-DAG: %select = f32[4,6]{1,0} select(%compare, %add, %y)
    %3 = stablehlo.select %1, %0, %y : tensor<4x6xi1>, tensor<4x6xf32>
    // CHECK-DAG: %broadcast = f32[4,6]{1,0} broadcast(%s), dimensions={}
    %4 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    // CHECK-DAG: %cst = f32[] constant(-inf)
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    // CHECK-DAG: %reduce = f32[6]{0} reduce(%x, %cst), dimensions={0}, to_apply=%region
    %5 = stablehlo.reduce(%x init: %cst) applies stablehlo.maximum across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    // CHECK-DAG: %slice = f32[2,2]{1,0} slice(%x), slice={[0:2:1], [1:5:3]}
    %6 = stablehlo.slice %x [0:2, 1:5:3] : (tensor<4x6xf32>) -> tensor<2x2xf32>
    // CHECK-DAG: %pad = f32[5,9]{1,0} pad(%x, %s), padding=1_0_0x0_-2_1
    %7 = stablehlo.pad %x, %s, low = [1, 0], high = [0, -2], interior = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x9xf32>
    // CHECK-DAG: %dot = f32[4,4]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,default}
    %8 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    // CHECK-DAG: %dot.1 = f32[6]{0} dot(%x, %y), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32
    %9 = stablehlo.dot_general %x, %y, batching_dims = [1] x [1], contracting_dims = [0] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6xf32>
    // CHECK-DAG: %transpose = f32[6,4]{1,0} transpose(%x), dimensions={1,0}
    %10 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    // CHECK-DAG: %iota = s32[4,6]{1,0} iota(), iota_dimension=1
    %11 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    // CHECK-DAG: %concatenate = f32[8,6]{1,0} concatenate(%x, %y), dimensions={0}
    %12 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    // CHECK-DAG: %reverse = f32[4,6]{1,0} reverse(%x), dimensions={0,1}
    %13 = stablehlo.reverse %x, dims = [0, 1] : tensor<4x6xf32>
    // CHECK-DAG: %reduce-precision = f32[4,6]{1,0} reduce-precision(%x), exponent_bits=5, mantissa_bits=10
    %14 = stablehlo.reduce_precision %x, format = e5m10 : tensor<4x6xf32>
    // CHECK-DAG: %one = s32[] constant(1)
    %one = stablehlo.constant dense<1> : tensor<i32>
    // CHECK-DAG: %dynamic-slice = f32[2,3]{1,0} dynamic-slice(%x, %one, %one), dynamic_slice_sizes={2,3}
    %15 = stablehlo.dynamic_slice %x, %one, %one, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    // CHECK-DAG: %dynamic-update-slice = f32[4,6]{1,0} dynamic-update-slice(%x, %dynamic-slice, %one, %one)
    %16 = stablehlo.dynamic_update_slice %x, %15, %one, %one : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    // CHECK-DAG: %fft = c64[4,4]{1,0} fft(%x), fft_type=RFFT, fft_length={6}
    %17 = stablehlo.fft %x, type = RFFT, length = [6] : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
    // CHECK-DAG: %real = f32[4,4]{1,0} real(%fft)
    %18 = stablehlo.real %17 : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
    // CHECK-DAG: %complex = c64[4,6]{1,0} complex(%x, %y)
    %19 = stablehlo.complex %x, %y : tensor<4x6xcomplex<f32>>
    // CHECK-DAG: %cholesky = f32[4,4]{1,0} cholesky(%dot), lower=true
    %20 = stablehlo.cholesky %8, lower = true : tensor<4x4xf32>
    // CHECK-DAG: %convert = bf16[4,6]{1,0} convert(%x)
    %21 = stablehlo.convert %x : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    // CHECK-DAG: %clamp = f32[4,6]{1,0} clamp(%s, %x, %s)
    %22 = stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    // CHECK-DAG: %exponential = f32[4,6]{1,0} exponential(%x), result_accuracy={mode=highest}
    %23 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<atol = 0.0, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4x6xf32>
    // CHECK-DAG: %opt-barrier = (f32[4,6]{1,0}, s32[3]{0}) opt-barrier(
    %24:2 = stablehlo.optimization_barrier %x, %n : tensor<4x6xf32>, tensor<3xi32>
    // CHECK-DAG: %convolution = f32[1,2,3,1]{3,2,1,0} convolution(%reshape, %reshape.1), window={size=2x2 stride=2x2 pad=0_0x1_0 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f
    %25 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<1x4x6x1xf32>
    %26 = stablehlo.reshape %6 : (tensor<2x2xf32>) -> tensor<2x2x1x1xf32>
    %27 = stablehlo.convolution(%25, %26) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [1, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x6x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x1xf32>
    // CHECK-DAG: %custom-call = f32[4,6]{1,0} custom-call(%x), custom_call_target="foo", custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i64}
    %28 = stablehlo.custom_call @foo(%x) {has_side_effect = true, api_version = 4 : i32, backend_config = {}, mhlo.backend_config = {a = 1 : i64}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    // CHECK-DAG: %values = (f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%x), k=2, largest=true, is_stable=true
    %values, %indices = chlo.top_k(%x, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    // CHECK-DAG: %tuple.1 = (f32[4,6]{1,0}, s32[3]{0}) tuple(%x, %n)
    %29 = stablehlo.tuple %x, %n : tuple<tensor<4x6xf32>, tensor<3xi32>>
    // CHECK-DAG: %get-tuple-element{{.*}} = s32[3]{0} get-tuple-element(%tuple.1), index=1
    %30 = stablehlo.get_tuple_element %29[1] : (tuple<tensor<4x6xf32>, tensor<3xi32>>) -> tensor<3xi32>
    // CHECK: ROOT %tuple.2 = (f32[6]{0}, f32[4,6]{1,0}) tuple(%reduce, %select)
    return %5, %3 : tensor<6xf32>, tensor<4x6xf32>
  }
}
