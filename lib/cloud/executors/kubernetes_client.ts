/**
 * The published client of Kubernetes. It is large, and needed by few: it is imported only when a cluster is opened.
 */

// @ts-types="./kubernetes_client.d.ts"
export { BatchV1Api, CoreV1Api, KubeConfig, type V1Job } from "@kubernetes/client-node";
