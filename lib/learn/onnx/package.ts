/** The names of ONNX Runtime's package and addon, for those that load or embed it. */

/** The package of the runtime. */
export const ONNX_PACKAGE = "onnxruntime-node";
/** The addon in its package. */
export const ONNX_ADDON = "onnxruntime_binding.node";
