/* What tells our reference runtimes from the real engines: only ours export these. Programs ask through a weak
   reference, so the answer is right for static and shared linking alike. */
#ifndef OHFORGE_REFERENCE_H
#define OHFORGE_REFERENCE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version of the reference runtime for people, for example "ohforge reference runtime 1". */
__attribute__((visibility("default"), weak)) const char *ohforge_reference_mslite(void);
__attribute__((visibility("default"), weak)) const char *ohforge_reference_nnrt(void);

#ifdef __cplusplus
}
#endif
#endif
