# Stand-in for the SDK's file of this name: the platform levels that there are.
set(SDK_NATIVE_MIN_PLATFORM_LEVEL "1")
set(SDK_NATIVE_MAX_PLATFORM_LEVEL "1")
