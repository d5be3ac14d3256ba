/**
 * The published Kubernetes client. It is large, and few need it: it is imported only when a cluster is opened.
 */

// @ts-types="./client.d.ts"
export {
  BatchV1Api,
  CoreV1Api,
  KubeConfig,
  type V1Job,
  type V1Pod,
  type V1Secret,
} from "@kubernetes/client-node";
